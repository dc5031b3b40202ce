//! Any byte of an epoch changed, any file cut short: the epoch is refused, the file is named.

use std::fs;
use std::path::PathBuf;

use super::fixture::{at, ready, small};
use crate::model::rng::Rng;
use crate::publish::{EpochNumber, EpochStore, Writer};

const FILES: [&str; 4] = ["plan.json", "lft.bin", "report.json", "SHA256SUMS"];

/// Two epochs, the second in force.
fn two() -> (tempfile::TempDir, EpochStore, [EpochNumber; 2]) {
    let dir = tempfile::tempdir_in(super::crash::fast_directory()).unwrap();
    let store = EpochStore::open(dir.path()).unwrap();
    let mut writer = store.lock().unwrap();
    let epochs = [0, 1].map(|i| publish(&mut writer, i));
    (dir, store, epochs)
}

fn publish(writer: &mut Writer, turn: usize) -> EpochNumber {
    let fabric = small();
    let (plan, report) = ready(&fabric, turn);
    writer.publish(&fabric, &plan, &report, at(turn as i64)).unwrap()
}

/// Writes wrong bytes and expects that the epoch is refused by name and that the other one stands.
fn refused(store: &EpochStore, epochs: [EpochNumber; 2], file: &str, bytes: &[u8], what: &str) {
    let path: PathBuf = store.epoch_path(epochs[1]).join(file);
    fs::write(&path, bytes).unwrap();
    match store.epoch(epochs[1]) {
        Ok(_) => panic!("{file} is accepted with {what}"),
        Err(e) => assert!(e.to_string().contains(file), "{file} with {what}: {e}"),
    }
    assert_eq!(store.current().unwrap(), Some(epochs[1]));
}

#[test]
fn any_flipped_bit_is_noticed() {
    let (_dir, store, epochs) = two();
    let mut rng = Rng::new(1);
    for file in FILES {
        let path = store.epoch_path(epochs[1]).join(file);
        let good = fs::read(&path).unwrap();
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 1 << rng.below(8);
            refused(&store, epochs, file, &bad, &format!("byte {i} changed"));
        }
        fs::write(&path, good).unwrap();
        store.epoch(epochs[1]).unwrap();
    }
}

#[test]
fn any_cut_is_noticed() {
    let (_dir, store, epochs) = two();
    for file in FILES {
        let path = store.epoch_path(epochs[1]).join(file);
        let good = fs::read(&path).unwrap();
        for length in 0..good.len() {
            refused(&store, epochs, file, &good[..length], &format!("{length} bytes"));
        }
        let longer = [good.as_slice(), b"\n"].concat();
        refused(&store, epochs, file, &longer, "a byte more");
        fs::remove_file(&path).unwrap();
        let error = store.epoch(epochs[1]).unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
        fs::write(&path, good).unwrap();
        store.epoch(epochs[1]).unwrap();
    }
}

#[test]
fn a_damaged_epoch_cannot_be_rolled_back_to_and_is_replaced_by_the_next() {
    let (_dir, store, epochs) = two();
    let path = store.epoch_path(epochs[0]).join("lft.bin");
    fs::write(&path, "").unwrap();
    let mut writer = store.lock().unwrap();
    assert!(writer.rollback(epochs[0]).unwrap_err().to_string().contains("000001/lft.bin"));
    assert_eq!(store.current().unwrap(), Some(epochs[1]));
    // Now the one in force: said so, the other still stands, and the next plan repairs it.
    fs::copy(store.epoch_path(epochs[1]).join("lft.bin"), &path).unwrap();
    fs::write(store.epoch_path(epochs[1]).join("plan.json"), "{}").unwrap();
    let error = store.published(&small()).unwrap_err().to_string();
    assert!(error.contains("000002/plan.json"), "{error}");
    let third = publish(&mut writer, 2);
    assert_eq!(store.current().unwrap(), Some(third));
    assert!(store.published(&small()).unwrap().is_some());
}

#[test]
fn an_epoch_under_another_number_is_not_that_epoch() {
    let (_dir, store, epochs) = two();
    fs::remove_dir_all(store.epoch_path(epochs[1])).unwrap();
    fs::rename(store.epoch_path(epochs[0]), store.epoch_path(epochs[1])).unwrap();
    let error = store.epoch(epochs[1]).unwrap_err().to_string();
    assert!(error.contains("it is of epoch 1"), "{error}");
}
