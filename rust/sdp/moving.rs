// SPDX-License-Identifier: GPL-2.0

//! A connection whose peer moves its end: the link goes down, and another one takes its place.
//!
//! The work item of the end takes the old link down. The new link comes up by a set-up like that of a client,
//! without TCP to fall back to. Programs see nothing of it: what they write waits, and so do they.
//!
//! Source: draft 13 (SDP-DUP-13, SDP-DUP-17 to SDP-DUP-19, SDP-DUP-27, SDP-DUP-31, SDP-DS-3 to SDP-DS-5); the
//! decisions are in `proto::sdp::suspend`.

use super::{
    attempt::{
        Opening,
        Outcome,
        Purpose,
        SdpAttempt, //
    },
    data::{
        new_places,
        Places,
        SdpData, //
    },
    growth::{
        Growth,
        Room, //
    },
    messages::SdpChannelOps,
    offer::{
        offer,
        READS, //
    },
    setup::SdpConnection, //
};
use crate::{
    kapi::{
        compat::errno::ENOTCONN,
        net::addr::Addr,
        verbs::channel::{
            Channel,
            WriteSource, //
        },
    },
    proto::{
        base::time::Instant,
        sdp::setup::{
            Connecting,
            Discovery,
            SdpTerms,
            SetupTimers, //
        },
    },
    sock::context::now,
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What a new link brings.
struct NewLink<'a> {
    terms: &'a SdpTerms,
    channel: &'a Arc<Channel<SdpChannelOps>>,
    /// The send ring, as its device reads it.
    source: Option<WriteSource>,
    /// Places for the messages of both links.
    places: Places,
}

impl SdpData {
    /// The first place behind those of the first link.
    fn second_range(&self) -> u16 {
        match self.first_place {
            0 => self.growth.room.buffers,
            first => first,
        }
    }

    /// The first of `count` places for the messages of a new link. `None` if both ranges have messages that no
    /// program has read.
    fn free_place(&self, count: u16) -> Option<u16> {
        let starts = [0, self.second_range()];
        starts.into_iter().find(|start| {
            let places = self.places.iter().skip((*start).into());
            places.take(count.into()).flatten().next().is_none()
        })
    }

    /// How many places there must be for a link of `count` receive buffers.
    fn places_with(&self, count: u16) -> usize {
        let both = usize::from(self.second_range()).saturating_add(count.into());
        self.places.len().max(both)
    }

    /// Goes on with a new link. Returns whether it does: the connection may have ended meanwhile.
    fn go_on(&mut self, now: Instant, new: &mut NewLink<'_>) -> bool {
        let buffers = new.channel.recv_slots();
        let Some(first) = self.free_place(buffers).filter(|_| self.core.is_moving()) else {
            return false;
        };
        for (place, old) in new.places.iter_mut().zip(self.places.iter_mut()) {
            *place = old.take();
        }
        core::mem::swap(&mut self.places, &mut new.places);
        self.first_place = first;
        self.channel = Some(new.channel.clone());
        self.source = new.source.take();
        let room = Room {
            buffers,
            ..self.growth.room
        };
        self.growth = Growth::new(room, new.terms.bufs);
        let wraps = new.channel.gather_pieces() > 1;
        self.core.resume(now, new.terms, wraps);
        true
    }
}

impl SdpConnection {
    /// Whether a new link comes up, or is due to. Context: any.
    pub(super) fn is_moving(&self) -> bool {
        self.look(|data| data.is_moving) == Some(true)
    }

    /// Begins to connect to the new end of the peer, which is at that port of its host. The old link is down.
    /// Context: may sleep. Only the work item of the end calls it.
    pub(super) fn begin_moving(self: &Arc<Self>, port: u16) {
        self.leave_device();
        let peer = self.sk.peer_addr();
        let is_v4 = peer.as_v4().is_some();
        let target = Addr::from_mapped(peer.ip_mapped(), port, peer.scope(), is_v4);
        // READS are those of a device that is not known yet.
        let offer = offer(&self.sk.local_addr(), &target, READS);
        let connecting = Connecting::new(now(), SetupTimers::MOVE, offer, Discovery::Try);
        let opening = Opening::new(Purpose::Move, target, connecting);
        let Ok(opening) = KBox::new(opening, GFP_KERNEL) else {
            return self.end_moving(true);
        };
        let mut attempt = self.protocol.attempt.lock();
        self.protocol.mail.open(self.clone());
        *attempt = Some(SdpAttempt::Opening(opening));
        drop(attempt);
        self.kick_setup();
    }

    /// Goes on with the set-up of the new link. Returns whether the attempt is over. Context: may sleep. Only
    /// the work item of the set-up calls it.
    pub(super) fn run_moving(self: &Arc<Self>, opening: &mut Opening) -> bool {
        let has_ended = self.look(|data| data.core.is_moving()) != Some(true);
        if has_ended && matches!(opening.outcome, Outcome::Open) {
            self.end_moving(true);
            return true;
        }
        let failed = match opening.advance(self) {
            Outcome::Open => return false,
            Outcome::Up => false,
            Outcome::Tcp(_) => true,
        };
        opening.end_resolver();
        if !failed {
            self.take_up(&mut opening.link);
        }
        self.end_moving(failed);
        true
    }

    /// The queue pair of the new link is connected: the data side has it from now on. Context: may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `ENOTCONN` if the connection has ended, or its program has not read what has come before the
    /// last move.
    pub(super) fn resume(
        self: &Arc<Self>,
        terms: &SdpTerms,
        channel: &Arc<Channel<SdpChannelOps>>,
    ) -> Result {
        let buffers = channel.recv_slots();
        let found = self.look(|data| (data.sendbuf.clone(), data.places_with(buffers)));
        let (sendbuf, places) = found.ok_or(ENOTCONN)?;
        let source = WriteSource::Buffer(sendbuf.map(channel.device())?);
        let mut new = NewLink {
            terms,
            channel,
            source: Some(source),
            places: new_places(places)?,
        };
        let goes_on = self.update(|data, now| data.go_on(now, &mut new));
        // The former places are freed without the lock.
        drop(new);
        match goes_on {
            Some(true) => Ok(()),
            _ => Err(ENOTCONN),
        }
    }

    /// The new link is there, or, if `failed`, there will be none. Context: may sleep.
    fn end_moving(self: &Arc<Self>, failed: bool) {
        let _ = self.update(|data, now| {
            data.is_moving = false;
            if failed {
                data.core.handle_move_failed(now);
            }
        });
        // What has come meanwhile is for the data side.
        self.kick_closing();
    }
}
