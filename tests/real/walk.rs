//! The administrator's walk: every command of the papers on installing, on names and on the service, on a clean
//! machine.

use std::fs;

use super::machine::Machine;
use super::package::first;
use super::testbed::root;

/// The commands of `docs`: on installing, names, the service, and last on backing out; comments taken off.
fn commands() -> Vec<String> {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let install = read("docs/INSTALL.md");
    let (steps, back) = install.split_once("## How to back out").expect("the section");
    let text = [steps, &read("docs/FABRICS.md"), &read("docs/SERVICE.md"), back].concat();
    let blocks = text.split("```sh\n").skip(1).map(|b| b.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).map(|l| l.split("  # ").next().unwrap_or("").trim());
    lines.filter(|l| !l.is_empty()).map(str::to_string).collect()
}

/// Before the walk: Slurm's controller with nodes of which only the controller knows, OpenSM and
/// `ibnetdiscover` on a simulated fabric. Two jobs whose nodes alternate.
const SITE: &str = r#"
# step STATUS COMMAND
step() {
    local status=0
    echo "== $2"
    bash -c "$2" 2>&1 || status=$?
    echo "-- $status"
    [[ $status == "$1" ]]
}
# Waits for what the next command needs.
until_true() {
    for ((i = 0; i < 300; i++)); do
        eval "$1" && return
        sleep 0.1
    done
    false
}
cd /walk
mkfifo /walk/console
(ibsim -s -N 64 -S 64 -P 1024 /walk/site.net <>/walk/console >/walk/ibsim.log 2>&1 &)
# With loopback addresses alone, Slurm resolves nothing, not even 127.0.0.1.
ip address add 192.0.2.1/32 dev lo
preload=$(ls /usr/lib/*/umad2sim/libumad2sim.so)
simulated="Environment=LD_PRELOAD=$preload SIM_HOST=n1"
mkdir -p /etc/systemd/system/sarouter-fabric.service.d /run/sim /etc/slurm
printf '[Service]\n%s\nRestrictAddressFamilies=AF_INET\nIPAddressDeny=\n' "$simulated" \
    >/etc/systemd/system/sarouter-fabric.service.d/simulated.conf
printf '[Service]\n%s\nWorkingDirectory=/run/sim\nExecStart=/usr/sbin/opensm\n' "$simulated" \
    >/etc/systemd/system/opensm.service
cat >/etc/slurm/slurm.conf <<CONF
ClusterName=walk
SlurmctldHost=$(hostname)(127.0.0.1)
MailProg=/bin/true
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldLogFile=/var/log/slurm/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PrivateData=cloud
ResumeProgram=/bin/true
SuspendProgram=/bin/true
NodeName=n[1-16] CPUs=1 State=CLOUD
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
systemctl daemon-reload
systemctl restart munge.service slurmctld.service
until_true 'grep -q ready /walk/ibsim.log && scontrol ping | grep -q UP'
systemctl start opensm.service
for nodes in 'n[1,3,5,7,9,11,13,15]' 'n[2,4,6,8,10,12,14,16]'; do
    sbatch -N 8 -w "$nodes" -o /dev/null --wrap 'sleep 600'
done
until_true '[[ $(squeue -h -t R,CF | wc -l) == 2 ]]'
mkdir -p /walk/admin
cp /walk/sarouter_*.deb /walk/admin
cd /walk/admin

"#;

/// What the test does between the commands: what a person decides or waits for.
fn around(command: &str) -> (&'static str, &'static str) {
    match command {
        "systemctl start sarouter-fabric.service" => (
            "sed -i -e 's/^min_job_age_seconds = 60/min_job_age_seconds = 0/' \
             -e 's/^epochs_per_day = .*/min_gain_seconds = 0/' \
             -e 's/^interval_seconds = 60/interval_seconds = 1/' /etc/sarouter/sarouter.toml\n\
             grep -c '^Switch' /var/lib/sarouter/fabric.ibnetdiscover && exit 1",
            "[[ $(grep -c ^Switch /var/lib/sarouter/fabric.ibnetdiscover) == 6 ]]",
        ),
        "systemctl enable --now sarouter.service" => {
            ("", "until_true '[[ -e /var/lib/sarouter/current && -S /var/lib/sarouter/api.sock ]]'")
        }
        // The first time OpenSM is to take the epoch, the second time to leave it.
        "systemctl restart opensm.service" => (
            "",
            "if grep -q ^event_plugin /etc/opensm/opensm.conf; then\n\
             until_true \"grep -qs '\\\"generation\\\": [1-9]' /var/lib/sarouter/opensm-status.*.json\"\nelse\n\
             until_true \"grep -q 'SUBNET UP' /var/log/opensm.log\"\nfi",
        ),
        "systemctl disable --now sarouter.service sarouter-fabric.timer" => (
            "",
            "grep -q '\"running\": false' /var/lib/sarouter/opensm-status.*.json\nif pgrep -x sarouter; then exit 1; fi",
        ),
        "apt-get purge -y sarouter" => {
            ("", "[[ ! -e /var/lib/sarouter && $(systemctl is-active opensm) == active ]]")
        }
        _ => ("", ""),
    }
}

#[test]
#[ignore = "needs root, Debian's mmdebstrap and systemd-container, and its mirror"]
fn every_command_of_the_papers_works_on_a_clean_machine() {
    let mut machine = Machine::new();
    let walk = machine.root().join("walk");
    fs::create_dir(&walk).unwrap();
    fs::copy(first(), walk.join(first().file_name().unwrap())).unwrap();
    let mut made = std::process::Command::new(env!("CARGO_BIN_EXE_sarouter"));
    made.args(["fabric", "generate", "fattree:4x4,2", "--out"]).arg(walk.join("site.net"));
    super::testbed::run(&mut made);
    machine.put("/walk/admin/day.sacct", &day());
    let mut script = SITE.to_string();
    let mut doctors = 0;
    for command in commands() {
        // The package is there already, and Slurm has no accounting database to ask.
        if command.starts_with("scripts/package") || command.starts_with("sacct ") {
            continue;
        }
        doctors += usize::from(command == "sarouter doctor");
        // OpenSM is not switched on yet; and there are jobs to route for.
        let status =
            usize::from((command == "sarouter doctor" && doctors == 1) || command == "sarouter plan");
        let (before, after) = around(&command);
        script += &format!("{before}\nstep {status} {}\n{after}\n", quoted(&command));
    }
    assert_eq!(doctors, 2, "the paper asks before and after");
    let told = machine.boot(&script);
    let said = |command: &str| {
        told.split(&format!("== {command}")).nth(1).expect(command).split("\n-- ").next().unwrap()
    };
    assert!(said("sarouter plan").contains("jobs"), "{told}");
    assert!(said("sarouter replay").contains("balanced"), "{told}");
    assert!(said("sarouter history").contains("first"), "{told}");
    assert!(
        said("sarouter status").contains("healthy") || !said("sarouter status").contains("not"),
        "{told}"
    );
    println!("{told}");
}

fn quoted(command: &str) -> String {
    format!("'{}'", command.replace('\'', r"'\''"))
}

/// A day of jobs as `sacct` prints it: every half hour two whose nodes alternate.
fn day() -> String {
    let mut text = "JobID|Start|End|State|NodeList\n".to_string();
    for half in 0..48 {
        let time = |minutes: usize| format!("2026-01-05T{:02}:{:02}:00", minutes / 60, minutes % 60);
        let (start, end) = (time(half * 30), time(half * 30 + 25));
        for first in 1..=2 {
            let nodes: Vec<String> = (first..=16).step_by(1 + half % 3).map(|n| n.to_string()).collect();
            text += &format!("{}|{start}|{end}|COMPLETED|n[{}]\n", 100 + 2 * half + first, nodes.join(","));
        }
    }
    text
}
