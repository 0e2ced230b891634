// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.
//!
//! The protocol state of a queue pair belongs to its work item, which runs in softirq and never twice
//! at a time. Programs, the network and the timer leave their news in queues of their own and kick it:
//!
//! ```text
//!   post_send, post_recv ---> sends, receives --+
//!   packets ----------------> inbox ------------+--> work item: core --> packets, completions
//!   timer ------------------> expired ----------+
//! ```
//!
//! | Lock       | Kind            | Taken by                                            |
//! |------------|-----------------|-----------------------------------------------------|
//! | `config`   | mutex           | changes of state                                    |
//! | `core`     | BH              | the work item; changes and queries, for a moment    |
//! | `inbox`    | BH, innermost   | reception, which the network stack may call below `core` |
//! | `path`     | BH, innermost   | the work item; that of the peer, to say what arrived |
//! | `lender`   | BH, outside of those of memory | completions of requests; the peer that copies their octets |
//! | `sends`, `receives` | IRQ, innermost | programs with their locks, the work item    |
//!
//! A queue pair with a shared receive queue takes from that, whose lock is innermost, too.
//! A queue pair of user space has its queues in rings, which the work item reads:
//! [`rings::UserQueues`] is a part of `core`.
//!
//! `core` is held while packets go to the network stack: a packet that comes back at once only finds
//! `inbox`. Nothing calls a program back with a lock held: completions go by the work item of their
//! queue, events are reported when `core` is released.
//!
//! | What                                        | File         |
//! |---------------------------------------------|--------------|
//! | The queue pair and its protocol state       | [`pair`]     |
//! | Calls of the verbs core                     | `verbs`      |
//! | Queues of programs, of packets              | [`queues`], [`inbox`] |
//! | Rings of user space                         | [`rings`]    |
//! | Attributes                                  | [`settings`] |
//! | Changes of state, the end                   | [`modify`]   |
//! | Events and status codes                     | [`events`]   |
//! | The work item: order of its steps           | [`actor`]    |
//! | Packets that leave out the network          | [`direct`]   |
//! | Requests: packets, completions              | [`request`]  |
//! | Requests of the peer, replies               | [`respond`]  |
//! | What a late profile places late             | [`late_writes`] |
//! | Completions of a run                        | [`batch`]    |
//! | Datagrams                                   | [`datagram`] |
//! | Counters of packets and events              | [`tally`]    |

mod actor;
mod batch;
mod datagram;
mod direct;
mod events;
mod inbox;
mod late_writes;
mod modify;
mod pair;
mod queues;
mod request;
mod respond;
mod rings;
mod settings;
mod tally;
mod verbs;

pub(super) use self::{
    pair::QueuePair,
    rings::user_sizes, //
};
