//! What OpenSM's plugin has changed of the epoch in force: the file is specified in `plugin/README.md`.

use std::fs;
use std::path::Path;

use super::PluginStatus;
use crate::pass::plan::Repair;

/// What the plugin of an OpenSM changed last, by its status and the directory of the epochs. `None` if nothing, or if the file cannot
/// be read: then nobody knows.
pub fn in_force(status: &PluginStatus, directory: &Path) -> Option<Repair> {
    let port = status.port.as_deref()?.strip_prefix("0x")?;
    let path = directory.join(format!("opensm-repair.{port}.txt"));
    // To open a pipe would wait for its writer.
    fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    let repair = parse(&fs::read_to_string(&path).ok()?)?;
    Some(repair).filter(|repair| !repair.entries.is_empty())
}

/// `None` if it is not whole.
fn parse(text: &str) -> Option<Repair> {
    let mut lines = text.strip_suffix('\n')?.lines();
    let epoch = lines.next()?.strip_prefix("epoch ")?.parse().ok()?;
    let count: usize = lines.next()?.strip_prefix("entries ")?.parse().ok()?;
    let entry = |line: &str| {
        let numbers: Result<Vec<u32>, _> = line.split(' ').map(str::parse).collect();
        <[u32; 4]>::try_from(numbers.ok()?).ok().filter(|[set, _, _, port]| *set < 2 && *port < 256)
    };
    let entries: Vec<[u32; 4]> = lines.map(entry).collect::<Option<_>>()?;
    (entries.len() == count).then_some(Repair { epoch, entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_file_is_none() {
        let whole = "epoch 7\nentries 2\n0 3 11 2\n1 4 0 255\n";
        let entries = vec![[0, 3, 11, 2], [1, 4, 0, 255]];
        assert_eq!(parse(whole), Some(Repair { epoch: 7, entries }));
        for end in 0..whole.len() - 1 {
            assert_eq!(parse(&whole[..end]), None, "{:?}", &whole[..end]);
        }
        for wrong in ["2 4 0 255", "1 4 0 256", "1 4 0", "1 4 0 5 6", "a 4 0 5", "1 -4 0 5"] {
            assert_eq!(parse(&whole.replace("1 4 0 255", wrong)), None, "{wrong}");
        }
    }
}
