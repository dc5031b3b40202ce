//! What the simulated hardware can do. Every default names its source.

/// Hardware of a simulated fabric. Times are in picoseconds, sizes in bytes unless a name says
/// flits, rates in bytes per nanosecond (= Gbyte/s).
#[derive(Debug, Clone, Copy, PartialEq, schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Length of the simulator's tick: all times are rounded to it.
    pub tick_ps: u32,
    /// Unit of buffers and credits.
    pub flit_bytes: u32,
    /// Most payload bytes of a packet.
    pub mtu: u32,
    /// Header and footer bytes of a packet.
    pub overhead: u32,
    /// Rate of a cable between switches.
    pub link_rate: f64,
    /// Rate of the cable between a terminal and its switch. In a direct network that is the
    /// node's own router, and faster.
    pub terminal_rate: f64,
    /// Rate at which a terminal hands packets to its adapter.
    pub injection_rate: f64,
    /// Rate at which a terminal takes packets from its adapter.
    pub consumption_rate: f64,
    /// Propagation delay of a cable; credits take as long.
    pub link_delay_ps: u32,
    /// From the arrival of a packet's head to its request for an output.
    pub switch_delay_ps: u32,
    /// Input buffer of a port per lane, at most 65,535.
    pub input_flits: u32,
    /// Output buffer of a port per lane, at most 65,535; 0: packets go from the input buffer to the cable.
    pub output_flits: u32,
    /// Rate of the crossbar into one output buffer relative to that of a cable; 0: no limit.
    pub speed_up: f64,
    /// Packets that the crossbar may move into output buffers of one port, on different lanes, at
    /// the same time; 0: one on each lane.
    pub parallel_fills: u8,
    /// Packets that an input port may send to different outputs at the same time; 0: no limit.
    pub parallel_reads: u8,
    /// How often a packet that waits for an output may choose another one, for adaptive routings;
    /// 0: its choice stands.
    pub reconsider_ps: u32,
    /// Once per tick all first packets of input lanes choose anew, and each lane of an output draws
    /// one of those that chose it; otherwise packets queue for what they chose, first come first served.
    /// With `any_first_lane` they choose any lane to their terminal as well. Needs output buffers, a
    /// `speed_up` and `parallel_reads` 0.
    pub random_arbiter: bool,
    /// A terminal sends a packet on the first lane that has room, where the routing lets it start
    /// on any ([`Router::starts_anywhere`](super::Router::starts_anywhere)).
    pub any_first_lane: bool,
    /// Packets that a terminal's queue holds under open-loop traffic; more are not generated.
    pub source_queue: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self::qdr()
    }
}

impl Settings {
    /// 4X QDR InfiniBand of thesis section 4.3.2.
    ///
    /// From there: 32 Gbit/s cables and adapters; 7 m of copper, 43 ns; 128 flits of 64 bytes of
    /// input buffer per lane (128 × 8 lanes × 64 = 65,536 bytes); 78 flits of output buffer; MTU
    /// 2,048 and 26 bytes around it; a PCI bus that stops for 0.01 µs after each 0.1 µs, which
    /// leaves 10/11 of the rate to sinks. The flit-level model it uses (`ib_flit_sim`,
    /// `src/ibuf.ned`) lets an input port send three packets at a time, at the rate of a cable.
    /// The switch delay is not given there; that model has 50 + 50 ns (`src/switch.ned`).
    pub fn qdr() -> Self {
        Self {
            tick_ps: 500,
            flit_bytes: 64,
            mtu: 2048,
            overhead: 26,
            link_rate: 4.0,
            terminal_rate: 4.0,
            injection_rate: 4.0,
            consumption_rate: 4.0 * 10.0 / 11.0,
            link_delay_ps: 43_000,
            switch_delay_ps: 100_000,
            input_flits: 128,
            output_flits: 78,
            speed_up: 1.0,
            parallel_fills: 1,
            parallel_reads: 3,
            reconsider_ps: 0,
            random_arbiter: false,
            any_first_lane: false,
            source_queue: 16,
        }
    }

    /// A network measured in cycles and phits, for the Polarized paper: one tick is one cycle, one
    /// flit one phit, packets of 16 phits, one phit per cycle and cable. The paper gives none of
    /// these; packets, buffers (64 phits in, 32 out) and delays are those of its first author's
    /// simulator, `caminos`, in `src/defaults/main.cfg`. There the crossbar moves one phit per cycle
    /// into the output buffer of each lane and from each lane of an input port (`selected_input` and
    /// `selected_output` in `src/router/basic.rs`), and servers inject on the first lane with room
    /// (`src/lib.rs`). What else it does: [`Settings::caminos`].
    pub fn phits() -> Self {
        Self {
            tick_ps: 1000,
            flit_bytes: 1,
            mtu: 16,
            overhead: 0,
            link_rate: 1.0,
            terminal_rate: 1.0,
            injection_rate: 1.0,
            consumption_rate: 1.0,
            link_delay_ps: 1000,
            switch_delay_ps: 1000,
            input_flits: 64,
            output_flits: 32,
            speed_up: 1.0,
            parallel_fills: 0,
            parallel_reads: 0,
            reconsider_ps: 0,
            random_arbiter: false,
            any_first_lane: true,
            source_queue: 10,
        }
    }

    /// [`Settings::phits`], and all else that `caminos` 0.6.3 does: in each cycle it lets all first
    /// packets choose anew and draws which of them go (`src/router/basic.rs`), packets take any
    /// lane to their server (`Hops` in `src/policies.rs`), and a phit goes on in the cycle in which it
    /// arrives. That costs more time the more packets wait.
    pub fn caminos() -> Self {
        Self { switch_delay_ps: 0, random_arbiter: true, ..Self::phits() }
    }

    /// A torus of 2 Gbyte/s cables, the figure of the RDR paper (Figure 5), packets of 512 bytes.
    /// It says nothing of buffers, delays and the crossbar; those are assumed to be QDR's.
    pub fn rdr() -> Self {
        Self {
            mtu: 512,
            overhead: 0,
            link_rate: 2.0,
            terminal_rate: 16.0,
            injection_rate: 16.0,
            consumption_rate: 16.0,
            ..Self::qdr()
        }
    }

    /// An Angara-like torus: no figure of its buffers is public. Packets of 256 bytes, cables of
    /// 4 Gbyte/s, a faster adapter so that cables and not terminals are what routes compete for;
    /// all of these are assumptions, and buffers, delays and the crossbar are QDR's.
    pub fn angara() -> Self {
        Self {
            mtu: 256,
            overhead: 16,
            link_rate: 4.0,
            terminal_rate: 16.0,
            injection_rate: 16.0,
            consumption_rate: 16.0,
            ..Self::qdr()
        }
    }

    /// Checks ranges.
    ///
    /// # Errors
    /// A sentence that names the setting.
    pub fn check(&self) -> Result<(), String> {
        let positive = |name: &str, value: f64| {
            if value.is_finite() && value > 0.0 { Ok(()) } else { Err(format!("{name} must be above 0")) }
        };
        positive("tick_ps", f64::from(self.tick_ps))?;
        positive("flit_bytes", f64::from(self.flit_bytes))?;
        positive("mtu", f64::from(self.mtu))?;
        positive("link_rate", self.link_rate)?;
        positive("terminal_rate", self.terminal_rate)?;
        positive("injection_rate", self.injection_rate)?;
        positive("consumption_rate", self.consumption_rate)?;
        positive("source_queue", f64::from(self.source_queue))?;
        if !(self.speed_up == 0.0 || (self.speed_up >= 1.0 && self.speed_up.is_finite())) {
            return Err("speed_up must be 0 (no limit) or at least 1".into());
        }
        if self.mtu.checked_add(self.overhead).is_none() {
            return Err("mtu and overhead are 4 GiB or more together".into());
        }
        if self.link_delay_ps.checked_add(self.switch_delay_ps).is_none() {
            return Err("link_delay_ps and switch_delay_ps are above 4294967295 together".into());
        }
        let flits = self.flits(self.mtu);
        if flits > u32::from(u16::MAX) {
            return Err("a packet has more than 65535 flits".into());
        }
        if self.input_flits < flits || (self.output_flits > 0 && self.output_flits < flits) {
            return Err(format!("a buffer is smaller than a packet of {flits} flits"));
        }
        if self.random_arbiter && (self.output_flits == 0 || self.speed_up == 0.0 || self.parallel_reads > 0)
        {
            return Err("random_arbiter needs output buffers, a speed_up and parallel_reads 0".into());
        }
        if self.input_flits.max(self.output_flits) > u32::from(u16::MAX) {
            return Err("a buffer has more than 65535 flits".into());
        }
        Ok(())
    }

    /// Checks that the buffers for which packets wait have room for so many: output buffers, or input buffers without them.
    pub(super) fn check_room(&self, packets: u32) -> Result<(), String> {
        let (name, flits) = match self.output_flits {
            0 => ("input_flits", self.input_flits),
            flits => ("output_flits", flits),
        };
        let least = packets.saturating_mul(self.flits(self.mtu));
        if flits < least {
            let why = "the bubble rule of a direct torus";
            return Err(format!("{name} must be at least {least}: {why} needs room for {packets} packets"));
        }
        Ok(())
    }

    /// Flits of a packet with that much payload.
    pub fn flits(&self, payload: u32) -> u32 {
        payload.saturating_add(self.overhead).div_ceil(self.flit_bytes.max(1)).max(1)
    }
    /// Ticks of a duration, at least 1.
    pub(super) fn ticks(&self, ps: u32) -> u64 {
        u64::from(ps).div_ceil(u64::from(self.tick_ps)).max(1)
    }
    /// Ticks that a packet with that much payload takes at a rate, at least 1.
    pub(super) fn ticks_at(&self, payload: u32, rate: f64) -> u32 {
        let ps = f64::from(payload + self.overhead) / rate * 1000.0;
        (ps / f64::from(self.tick_ps)).round().max(1.0) as u32
    }
    /// Nanoseconds of so many ticks.
    pub fn nanoseconds(&self, ticks: u64) -> f64 {
        ticks as f64 * f64::from(self.tick_ps) / 1000.0
    }
}
