//! Which channel is behind a port, in flat arrays: for walks over all routes.

use super::Fabric;

/// Channels by switch and port. See [`Fabric::wiring`].
#[derive(Debug, Clone)]
pub struct Wiring {
    /// Receiving switch of each channel.
    pub to: Vec<u32>,
    /// `channels[switch * stride + port]`.
    channels: Vec<u32>,
    stride: usize,
}

impl Wiring {
    /// No channel.
    pub const NONE: u32 = u32::MAX;

    pub(super) fn new(fabric: &Fabric) -> Self {
        let stride = fabric.switches().iter().map(|s| usize::from(s.ports) + 1).max().unwrap_or(1);
        let mut channels = vec![Self::NONE; stride * fabric.switches().len()];
        for (i, c) in fabric.channels().iter().enumerate() {
            channels[c.from.index() * stride + usize::from(c.from_port.get())] = i as u32;
        }
        let to = fabric.channels().iter().map(|c| c.to.index() as u32).collect();
        Self { to, channels, stride }
    }

    /// The channel behind a port; [`Wiring::NONE`] if there is none.
    #[inline]
    pub fn channel(&self, switch: usize, port: u8) -> u32 {
        let port = usize::from(port);
        if port < self.stride { self.channels[switch * self.stride + port] } else { Self::NONE }
    }
}
