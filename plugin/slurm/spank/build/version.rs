//! Which Slurm is installed, from what its header, its programs and the package databases say.

/// The daemons need no settings to say their version. The commands of some versions do: Debian's
/// `sinfo -V` fails without `slurm.conf`. Debian keeps daemons out of a user's `PATH`.
const PROGRAMS: [&str; 6] =
    ["slurmd", "slurmctld", "/usr/sbin/slurmd", "/usr/sbin/slurmctld", "sinfo", "scontrol"];

/// Packages whose version is Slurm's, as Debian, SchedMD, Fedora, SUSE and OpenHPC call them.
const PACKAGES: [&str; 20] = [
    "slurmd",
    "slurmctld",
    "slurm-client",
    "libslurm-dev",
    "slurm-wlm-basic-plugins",
    "slurm-smd",
    "slurm-smd-slurmd",
    "slurm-smd-slurmctld",
    "slurm-smd-client",
    "slurm-smd-dev",
    "slurm",
    "slurm-slurmd",
    "slurm-slurmctld",
    "slurm-devel",
    "slurm-node",
    "slurm-ohpc",
    "slurm-slurmd-ohpc",
    "slurm-slurmctld-ohpc",
    "slurm-devel-ohpc",
    "slurm-libs",
];

/// A version as Slurm counts it: `22.05.8` is `0x160508`. An epoch before it and a revision behind it
/// do not count, nor does what follows the digits of a part.
pub fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    let version = text.split_once(':').map_or(text, |(_epoch, version)| version);
    let mut parts = version.split(['.', '-']).map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse::<u32>().ok()
    });
    let (major, minor, micro) = (parts.next()??, parts.next()??, parts.next().flatten().unwrap_or(0));
    (major < 1 << 8 && minor < 1 << 8 && micro < 1 << 8).then_some((major << 16) + (minor << 8) + micro)
}

/// The version of the Slurm that is installed: by its `header`, else its programs, else the databases
/// of dpkg and rpm. `printed` runs a command and returns its standard output.
pub fn installed(header: Option<&str>, printed: impl Fn(&str, &[&str]) -> Option<String>) -> Option<u32> {
    let by_program = || PROGRAMS.iter().find_map(|p| of_program(&printed(p, &["-V"])?));
    let by_package =
        |program: &str, query: &[&str]| of_packages(&printed(program, &[query, &PACKAGES[..]].concat())?);
    header
        .and_then(of_header)
        .or_else(by_program)
        .or_else(|| by_package("dpkg-query", &["-W", "-f=${db:Status-Abbrev} ${Package} ${Version}\n"]))
        .or_else(|| by_package("rpm", &["-q", "--qf", "ii %{NAME} %{VERSION}\n"]))
}

fn of_header(text: &str) -> Option<u32> {
    let digits = text.lines().find_map(|l| l.strip_prefix("#define SLURM_VERSION_NUMBER 0x"))?;
    u32::from_str_radix(digits.trim(), 16).ok()
}

/// `slurm-wlm 22.05.8`, `slurm 23.02.7`.
fn of_program(text: &str) -> Option<u32> {
    let mut words = text.split_whitespace();
    words.next().filter(|name| name.starts_with("slurm"))?;
    number(words.next()?)
}

/// Lines of a state whose second letter is `i` when the package is installed, a name and a version.
/// rpm's lines of packages that are not installed are among them.
fn of_packages(text: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|state| state.as_bytes().get(1) == Some(&b'i'))?;
        words.next().filter(|name| PACKAGES.contains(name))?;
        number(words.next()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V: u32 = 0x16_05_08;

    /// A machine on which only these commands print something.
    fn machine(says: &[(&str, &str)]) -> Option<u32> {
        installed(None, |program, _| {
            says.iter().find(|(name, _)| *name == program).map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn versions_are_counted_as_slurm_does() {
        for text in ["22.05.8", " 22.05.8\n", "22.05.8-4+deb12u3", "1:22.05.8-2", "22.05.8~rc1"] {
            assert_eq!(number(text), Some(V), "{text}");
        }
        assert_eq!(number("23.11"), Some(0x17_0b_00));
        assert_eq!(number("24.05.0-0rc1"), Some(0x18_05_00));
        for text in ["", "22", "slurm", "22.x.8", "22.300.1", "-1.2.3"] {
            assert_eq!(number(text), None, "{text}");
        }
    }

    #[test]
    fn the_header_comes_first() {
        let header = "/* made by configure */\n#define SLURM_VERSION_NUMBER 0x160508\n";
        assert_eq!(installed(Some(header), |_, _| Some("slurm 23.02.7".into())), Some(V));
        assert_eq!(installed(Some("#define OTHER 0x1\n"), |_, _| None), None);
    }

    #[test]
    fn any_program_that_answers_will_do() {
        for program in PROGRAMS {
            // Without settings a command prints nothing on its standard output.
            let silent = ("sinfo", "");
            assert_eq!(machine(&[(program, "slurm-wlm 22.05.8\n"), silent]), Some(V), "{program}");
        }
        assert_eq!(machine(&[("sinfo", "sinfo: 22.05.8")]), None, "not Slurm's way to say it");
    }

    #[test]
    fn any_package_of_slurm_will_do() {
        for package in PACKAGES {
            let line = format!("un  slurm-none \nii  {package} 22.05.8-4+deb12u3\n");
            assert_eq!(machine(&[("sinfo", ""), ("dpkg-query", &line)]), Some(V), "{package}");
        }
        let rpm = "package slurmd is not installed\nii slurm-slurmd 22.05.8\n";
        assert_eq!(machine(&[("dpkg-query", ""), ("rpm", rpm)]), Some(V));
    }

    #[test]
    fn what_is_not_installed_does_not_count() {
        let removed = "rc  slurmd 21.08.1-1\nun  slurmctld \nhi  slurm-client 22.05.8-4\n";
        assert_eq!(machine(&[("dpkg-query", removed)]), Some(V));
        assert_eq!(machine(&[("dpkg-query", "rc  slurmd 21.08.1-1\n")]), None);
        assert_eq!(machine(&[("dpkg-query", "ii  prometheus-slurm-exporter 0.20-1\n")]), None);
        assert_eq!(machine(&[("rpm", "package slurm is not installed\n")]), None);
        assert_eq!(machine(&[]), None);
    }

    /// Debian's own dpkg-query, on a database in which one package alone is installed.
    #[test]
    fn dpkg_query_is_understood() {
        let database = tempfile::tempdir().unwrap();
        std::fs::create_dir(database.path().join("info")).unwrap();
        for package in ["libslurm-dev", "slurm-client", "slurmd", "slurmctld"] {
            let status = format!(
                "Package: {package}\nStatus: install ok installed\nMaintainer: nobody <n@example.org>\n\
                 Architecture: amd64\nVersion: 22.05.8-4+deb12u3\nDescription: part of Slurm\n"
            );
            std::fs::write(database.path().join("status"), status).unwrap();
            let found = installed(None, |program, arguments| {
                if program != "dpkg-query" {
                    return None;
                }
                let mut command = std::process::Command::new(program);
                let output = command.env("DPKG_ADMINDIR", database.path()).args(arguments).output();
                // Where there is no dpkg the other tests must do.
                Some(output.map_or(format!("ii {package} 22.05.8"), |o| String::from_utf8(o.stdout).unwrap()))
            });
            assert_eq!(found, Some(V), "{package}");
        }
    }
}
