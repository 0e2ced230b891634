// SPDX-License-Identifier: GPL-2.0

//! Parsers of SDP: what was understood can be written and is understood in the same way again.

use crate::proto::{
    base::time::{
        Duration,
        Instant, //
    },
    sdp::{
        hello::{
            HelloForm,
            SdpHello,
            SdpHelloAck, //
        },
        msg::SdpMessage,
        pm::{
            client::{
                PmClient,
                PmStep,
                PmTimers, //
            },
            msg::{
                PmKind,
                PmMessage, //
            },
            server::{
                PmServer,
                PmService, //
            },
        },
        profile::WireLayout,
    },
};

const LAYOUTS: [WireLayout; 2] = [WireLayout::IdFirst, WireLayout::IdLast];

/// A message of a connection, in both layouts.
pub fn sdp_message(octets: &[u8]) {
    for layout in LAYOUTS {
        let Ok(message) = SdpMessage::parse(octets, layout) else {
            continue;
        };
        let header = message.emit(layout);
        let (_, payload) = octets.split_at(message.header_len());
        assert_eq!(payload.len(), message.payload as usize);
        let again = [header.as_slice(), payload].concat();
        assert_eq!(SdpMessage::parse(&again, layout), Ok(message));
    }
}

/// Hello and HelloAck, in all forms.
pub fn sdp_hello(octets: &[u8]) {
    if let Ok((form, hello)) = SdpHello::parse(octets, true) {
        let again = hello.emit(form.layout());
        let (found, mut other) = SdpHello::parse(again.as_slice(), true).unwrap();
        // Ours has our minor version.
        other.minor = hello.minor;
        assert_eq!((found, other), (form, hello));
        let strict = SdpHello::parse(octets, false);
        let is_literal = form == HelloForm::Draft(WireLayout::IdLast);
        assert_eq!(strict.is_err(), is_literal);
    }
    let drafts = LAYOUTS.map(HelloForm::Draft);
    for form in drafts.into_iter().chain([HelloForm::Annex]) {
        if let Ok(ack) = SdpHelloAck::parse(octets, form) {
            let again = ack.emit(form);
            let mut other = SdpHelloAck::parse(again.as_slice(), form).unwrap();
            other.minor = ack.minor;
            assert_eq!(other, ack);
        }
    }
}

/// A datagram of the Port Mapper, and what client and server do about it.
pub fn pm_message(octets: &[u8]) {
    let Ok(message) = PmMessage::parse(octets) else {
        return;
    };
    let mut plain = message;
    if plain.kind != PmKind::Accept {
        plain.time = 0;
    }
    assert_eq!(PmMessage::parse(&message.emit()), Ok(plain));

    let now = Instant::from_nanos(1);
    let service = PmService {
        at: message.service,
        time: message.time,
    };
    let mut server = PmServer::new(vec![None; 4]);
    for service in [Some(service), None] {
        let answer = server.handle_message(now, message.client.ip, &message, service);
        assert_eq!(answer.is_some(), message.kind == PmKind::Req);
        if let Some(answer) = answer {
            assert!(answer.is_answer_to(&message));
        }
    }

    let timers = PmTimers::DEFAULT;
    let mut client = PmClient::new(now, timers, message.service, message.client, message.handle);
    assert!(matches!(client.poll_step(), Some(PmStep::Send(_))));
    client.handle_message(&message);
    client.handle_timeout(now.saturating_add(Duration::from_millis(100)));
    let is_over = client.poll_timeout().is_none();
    let is_answer = match message.kind {
        PmKind::Accept => message.service.port != 0,
        PmKind::Deny => true,
        PmKind::Req | PmKind::Ack => false,
    };
    assert_eq!(is_over, is_answer);
}
