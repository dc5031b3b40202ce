//! The certificate in a hand-off file: the order of buffers that all routes climb, and the promise that says which
//! packets these are.
//!
//! Whoever programs switches sees by it, at each hop of a route, that there is no cycle.

use super::sections::Kind;
use super::{HandoffError, little_endian};
use crate::model::{ChannelId, Promise, Vl};
use crate::verify::Certificate;

/// Bytes of a buffer.
const BUFFER: usize = 4;
/// Bits of its VL; the number of the channel is above them.
const VL_BITS: u32 = 4;

/// Bytes of a promise.
pub(super) const PROMISE: usize = 4;

/// The parts of a promise, from the lowest bit on.
fn parts(promise: &mut Promise) -> [&mut bool; 6] {
    let Promise { told, untold, any, reply, since, mixed } = promise;
    [told, untold, any, reply, since, mixed]
}

/// A promise as bits.
pub(super) fn encode_promise(mut promise: Promise) -> Vec<u8> {
    let bits = parts(&mut promise).into_iter().rev().fold(0, |bits, part| bits << 1 | u32::from(*part));
    bits.to_le_bytes().to_vec()
}

/// Reads a promise. What later programs promise besides is not known here.
pub(super) fn decode_promise(bytes: &[u8]) -> Promise {
    let mut promise = Promise::NOTHING;
    for (bit, part) in parts(&mut promise).into_iter().enumerate() {
        *part = little_endian(bytes) >> bit & 1 == 1;
    }
    promise
}

/// The buffers, first to last. O(buffers).
pub(super) fn encode(certificate: &Certificate) -> Vec<u8> {
    let number = |(c, vl): &(ChannelId, Vl)| (c.index() as u32) << VL_BITS | u32::from(vl.get());
    certificate.order().iter().flat_map(|buffer| number(buffer).to_le_bytes()).collect()
}

/// Reads them, of a fabric with so many cables.
pub(super) fn decode(bytes: &[u8], cables: usize) -> Result<Vec<(ChannelId, Vl)>, HandoffError> {
    let wrong = |what| HandoffError::Section { kind: Kind::Order as u64, what };
    if bytes.len() % BUFFER != 0 {
        return Err(wrong("it ends within a buffer"));
    }
    let buffer = |bytes: &[u8]| {
        let number = little_endian(bytes);
        let channel = (number >> VL_BITS) as usize;
        let vl = Vl::new(number & ((1 << VL_BITS) - 1)).ok();
        vl.filter(|_| channel < 2 * cables).map(|vl| (ChannelId::at(channel), vl))
    };
    let order: Option<Vec<(ChannelId, Vl)>> = bytes.chunks_exact(BUFFER).map(buffer).collect();
    order.ok_or(wrong("it has a buffer that does not exist"))
}
