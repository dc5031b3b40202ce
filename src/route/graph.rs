//! The switch graph in flat arrays: what every hot loop of this room runs over.

use crate::model::{ChannelId, Fabric, SwitchId};

/// Switches and inter-switch channels, renumbered so that the channels leaving one switch are
/// consecutive (compressed sparse rows), in port order.
///
/// A channel of the graph is therefore known by its sending switch and its *slot*: its position
/// among the channels that leave this switch. A slot always fits a byte (a switch has at most
/// 254 ports) and is what a [`super::forest::Forest`] stores. Switch indices are those of
/// [`SwitchId`]; channel indices are **not** those of [`ChannelId`] (see [`Graph::id`]).
#[derive(Debug, Clone)]
pub struct Graph {
    /// `first[s]..first[s + 1]`: the channels that leave switch `s`.
    first: Vec<u32>,
    /// Receiving switch per channel.
    to: Vec<u32>,
    /// Sending switch per channel.
    from: Vec<u32>,
    /// The channel of the same cable in the other direction, per channel.
    reverse: Vec<u32>,
    /// Egress port on the sending switch, per channel.
    port: Vec<u8>,
    /// Channel of the fabric, per channel of the graph.
    id: Vec<ChannelId>,
    /// Attached hosts per switch.
    terminals: Vec<u32>,
}

impl Graph {
    /// Flattens a fabric. O(switches + channels).
    pub fn new(fabric: &Fabric) -> Self {
        let channels = fabric.channels().len();
        let mut first = vec![0];
        let mut id = Vec::with_capacity(channels);
        let mut index = vec![0u32; channels];
        for s in fabric.switch_ids() {
            for &c in fabric.out(s) {
                index[c.index()] = id.len() as u32;
                id.push(c);
            }
            first.push(id.len() as u32);
        }
        Self {
            first,
            to: id.iter().map(|c| fabric.channel(*c).to.0).collect(),
            from: id.iter().map(|c| fabric.channel(*c).from.0).collect(),
            reverse: id.iter().map(|c| index[c.reverse().index()]).collect(),
            port: id.iter().map(|c| fabric.channel(*c).from_port.get()).collect(),
            id,
            terminals: hosts_per_switch(fabric),
        }
    }

    /// Number of switches.
    #[inline]
    pub fn switches(&self) -> usize {
        self.terminals.len()
    }
    /// Number of directed inter-switch channels.
    #[inline]
    pub fn channels(&self) -> usize {
        self.to.len()
    }
    /// The channels that leave a switch, by port.
    #[inline]
    pub fn out(&self, switch: usize) -> std::ops::Range<usize> {
        self.first[switch] as usize..self.first[switch + 1] as usize
    }
    /// Receiving switches of the channels that leave a switch, by slot.
    #[inline]
    pub fn neighbours(&self, switch: usize) -> &[u32] {
        &self.to[self.out(switch)]
    }
    /// First channel of each switch.
    pub fn starts(&self) -> &[u32] {
        &self.first[..self.switches()]
    }
    /// Egress ports, by channel.
    pub fn all_ports(&self) -> &[u8] {
        &self.port
    }
    /// Words of 64 bits that a mask of one switch's slots takes.
    pub fn slot_words(&self) -> usize {
        (0..self.switches()).map(|s| self.out(s).len()).max().unwrap_or(0).div_ceil(64).max(1)
    }
    /// The channel in a slot of a switch.
    #[inline]
    pub fn channel(&self, switch: usize, slot: u8) -> usize {
        self.first[switch] as usize + usize::from(slot)
    }
    /// Position of a channel among those that leave its switch.
    #[inline]
    pub fn slot(&self, channel: usize) -> u8 {
        (channel - self.first[self.from(channel)] as usize) as u8
    }
    /// [`Graph::slot`] of a channel that is known to leave this switch.
    #[inline]
    pub fn slot_at(&self, switch: usize, channel: usize) -> u8 {
        (channel - self.first[switch] as usize) as u8
    }
    /// Receiving switch of a channel.
    #[inline]
    pub fn to(&self, channel: usize) -> usize {
        self.to[channel] as usize
    }
    /// Sending switch of a channel.
    #[inline]
    pub fn from(&self, channel: usize) -> usize {
        self.from[channel] as usize
    }
    /// The other direction of the same cable.
    #[inline]
    pub fn reverse(&self, channel: usize) -> usize {
        self.reverse[channel] as usize
    }
    /// Egress port of a channel on its sending switch.
    #[inline]
    pub fn port(&self, channel: usize) -> u8 {
        self.port[channel]
    }
    /// The fabric's name of a channel.
    #[inline]
    pub fn id(&self, channel: usize) -> ChannelId {
        self.id[channel]
    }
    /// Number of terminals attached to each switch that send: hosts, not aggregation nodes.
    #[inline]
    pub fn terminals(&self) -> &[u32] {
        &self.terminals
    }
    /// Hops from the nearest of `roots` to every switch; `u32::MAX` where there is no way.
    /// O(switches + channels).
    pub(super) fn hops_from(&self, roots: impl IntoIterator<Item = usize>) -> Vec<u32> {
        let mut hops = vec![u32::MAX; self.switches()];
        let mut queue: Vec<usize> = roots.into_iter().collect();
        queue.iter().for_each(|r| hops[*r] = 0);
        let mut head = 0;
        while let Some(&u) = queue.get(head) {
            head += 1;
            for c in self.out(u) {
                let w = self.to(c);
                if hops[w] == u32::MAX {
                    hops[w] = hops[u] + 1;
                    queue.push(w);
                }
            }
        }
        hops
    }

    /// The part of the fabric each switch is in, named by the part's first switch.
    /// O(switches + channels).
    pub fn components(&self) -> Vec<u32> {
        const UNSEEN: u32 = u32::MAX;
        let mut part = vec![UNSEEN; self.switches()];
        let mut stack = Vec::new();
        for first in 0..self.switches() {
            if part[first] != UNSEEN {
                continue;
            }
            part[first] = first as u32;
            stack.push(first);
            while let Some(s) = stack.pop() {
                for to in self.out(s).map(|c| self.to(c)) {
                    if part[to] == UNSEEN {
                        part[to] = first as u32;
                        stack.push(to);
                    }
                }
            }
        }
        part
    }
    /// The switch as the fabric knows it.
    #[inline]
    pub fn switch_id(&self, switch: usize) -> SwitchId {
        SwitchId::at(switch)
    }
}

/// Whether some switches have none, by [`hosts_per_switch`] or [`Graph::terminals`]: what trees have above
/// their leaves.
pub fn is_indirect(attached: &[u32]) -> bool {
    attached.contains(&0)
}

/// Number of hosts (not aggregation nodes) attached to each switch.
pub fn hosts_per_switch(fabric: &Fabric) -> Vec<u32> {
    let mut hosts = vec![0; fabric.switches().len()];
    for t in fabric.host_ids() {
        hosts[fabric.terminal(t).switch.index()] += 1;
    }
    hosts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::generate::generate;

    #[test]
    fn channels_keep_ends_ports_and_partners() {
        let fabric = generate("random:12,20,40,seed=3").unwrap();
        let graph = Graph::new(&fabric);
        assert_eq!((graph.switches(), graph.channels()), (12, 80));
        for s in 0..graph.switches() {
            for (slot, c) in graph.out(s).enumerate() {
                let channel = fabric.channel(graph.id(c));
                assert_eq!((graph.from(c), graph.to(c)), (channel.from.index(), channel.to.index()));
                assert_eq!((graph.from(c), graph.port(c)), (s, channel.from_port.get()));
                assert_eq!(graph.id(graph.reverse(c)), graph.id(c).reverse());
                assert_eq!((usize::from(graph.slot(c)), graph.channel(s, slot as u8)), (slot, c));
            }
        }
        assert_eq!(graph.terminals().iter().sum::<u32>(), 20);
    }
}
