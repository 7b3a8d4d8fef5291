//! Bytes at rest that change: what may be told of them, and what a repair may take.
//!
//! Laws: a store that opens in spite of it is whole to the last byte of every frame. One that does not names a
//! place, serves what is before it, and stays damaged until it is repaired. A repair loses no frame that was not
//! hit, and names those that it loses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mnemolog::codec::frame::{self, FrameKind, Seed};
use mnemolog::codec::segment::{FRAMES_START, SegmentHeader};
use mnemolog::disk::{Disk, MemoryDisk};
use mnemolog::error::Damage;
use mnemolog::interchange::{DumpOptions, dump};
use mnemolog::log::{repair, verify};
use mnemolog::{Clock, Error, Frame, Store};

use super::history::{Kind, Rot};
use super::truth::Check;
use super::world::{World, ensure, held};
use crate::model::{self, Rng};

/// What rotted, and what had been there.
pub(super) struct Rotten {
    rot: Rot,
    /// The lines of each frame.
    before: BTreeMap<u64, String>,
    /// The commits whose bytes were touched.
    hit: BTreeSet<u64>,
    /// Whether it also touched what an earlier repair had left.
    wide: bool,
    damaged: bool,
    repairs: u64,
}

/// A frame in a file.
#[derive(Clone, Debug)]
struct Place {
    path: String,
    from: usize,
    to: usize,
    kind: FrameKind,
    number: u64,
}

impl World {
    /// Everybody stops; the store is opened once more, and then bytes change.
    pub(super) fn rot(&mut self, rot: Rot, seed: u64) -> Check {
        if self.rotten.is_some() {
            return Ok(());
        }
        self.calm();
        let mut rng = Rng::new(seed);
        let process = self.disk.process();
        let store = match self.options(Kind::One).open_on(Arc::new(process.clone())) {
            Ok(store) => store,
            // Told late of a sync that failed: nobody knows what is on the disk.
            Err(e) => return self.excuse(&e, true, "opening before bytes change"),
        };
        self.settle_erasing(0, &store)?;
        let (last, disk) = (store.appended().0, self.disk.clone());
        self.truth.found(last, &|| held(&disk, &store), true)?;
        self.truth.claimed(last)?;
        let before = lines(&store)?;
        if rng.chance(2) {
            process.kill();
        }
        drop(store);
        process.kill();
        let promise = self.disk.read_file("DURABLE").unwrap_or_default();
        self.disk.write_file("DURABLE", &promise).map_err(|e| e.to_string())?;
        self.forget_checkpoints();
        let places = places(&self.disk);
        if let Some(hit) = change(&self.disk, rot, &places, &mut rng) {
            self.counts.met(&format!("rot: {rot:?}"));
            let wide = places.iter().any(|place| place.kind == FrameKind::Lost);
            self.rotten = Some(Rotten { rot, before, hit, wide, damaged: false, repairs: 0 });
        }
        Ok(())
    }

    /// A process was told that the store is damaged.
    pub(super) fn damaged(&mut self, damage: &Damage) -> Check {
        let last = self.truth.least();
        let rotten = self.rotten.as_mut().ok_or("nothing rotted")?;
        let harmless = matches!(rotten.rot, Rot::Promise | Rot::Duplicate);
        ensure!(!harmless, "{:?} hurts no frame: {damage}", rotten.rot);
        ensure!(damage.frame.0 <= last + 1, "no frame {} was ever written", damage.frame);
        ensure!(!damage.segment.is_empty(), "damage has a place: {damage}");
        if !std::mem::replace(&mut rotten.damaged, true) {
            self.counts.met("damaged");
        }
        Ok(())
    }

    /// A reader serves what is whole, and no more.
    pub(super) fn read_rotten(&mut self, store: &Store) -> Check {
        let last = store.appended().0;
        let differs = held(&self.disk, store)
            .is_some_and(|held| self.truth.state(last).is_some_and(|state| **state != held));
        let rotten = self.rotten.as_ref().ok_or("nothing rotted")?;
        // A repair may be stated by now, which readers read through.
        if rotten.repairs == 0 {
            ensure!(!differs, "a reader of a damaged store sees another frame {last}");
            let told = store.recovery().damage.is_some();
            // A reader counts up to the last frame that is not lost.
            let there = (0..=self.truth.last()).rev().find(|frame| !self.truth.gone.contains(frame));
            ensure!(told || Some(last) >= there, "frames after {last} are gone, and no reader is told");
        }
        Ok(())
    }

    /// The store opened: it is whole, or it was repaired.
    pub(super) fn opened_rotten(&mut self, store: &Store) -> Check {
        let rotten = self.rotten.take().ok_or("nothing rotted")?;
        let disk = self.disk.clone();
        let (now, last) = (disk.undisturbed(|| lines(store))?, store.appended().0);
        if now == rotten.before && last == self.truth.least() {
            ensure!(!rotten.damaged || rotten.repairs > 0, "damaged, and then whole without a repair");
            self.truth.found(last, &|| held(&disk, store), true)?;
            self.counts.met("whole in spite of rot");
            self.scarred = true;
            return Ok(());
        }
        let differs = rotten.before.iter().find(|(frame, lines)| now.get(frame) != Some(*lines));
        ensure!(
            rotten.repairs > 0,
            "frames are gone ({:?}), and nobody was told: {last} is the last, {} was; {differs:?} is {:?}",
            rotten.rot,
            self.truth.least(),
            differs.and_then(|(frame, _)| now.get(frame))
        );
        let strange = now.iter().find(|(frame, lines)| rotten.before.get(frame) != Some(*lines));
        ensure!(strange.is_none(), "after the repair this is new: {strange:?}");
        let gone: Vec<u64> = rotten.before.keys().filter(|frame| !now.contains_key(frame)).copied().collect();
        for frame in &gone {
            ensure!(
                rotten.wide || rotten.hit.contains(frame),
                "the repair took frame {frame}: {:?}",
                rotten.rot
            );
            let named = matches!(disk.undisturbed(|| store.at(Frame(*frame))), Err(Error::Lost { first, last, .. })
                if (first.0..=last.0).contains(frame));
            ensure!(named, "frame {frame} is gone and not called lost");
        }
        ensure!(last >= self.truth.last(), "number {last} is given again");
        self.counts.met("repaired");
        self.counts.add("frames lost and named", gone.len() as u64);
        self.truth.give_up(&gone, last, disk.undisturbed(|| model::held(store)));
        Ok(())
    }

    /// A process repairs; where it can, the store is opened then.
    pub(super) fn repair(&mut self, process: usize) -> Check {
        let disk = self.writers[process].disk.clone();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        if let Some(rotten) = &mut self.rotten {
            rotten.repairs += 1;
        }
        match repair(&shared, Duration::ZERO, true, self.clock.now()) {
            Ok(repaired) => match &self.rotten {
                None => {
                    self.counts.met("repairs of a whole log");
                    let told = std::mem::take(&mut self.scarred) || repaired.damage.is_empty();
                    ensure!(told, "nothing rotted: {:?}", repaired.damage);
                    ensure!(repaired.lost.is_empty(), "a whole log lost {:?}", repaired.lost);
                    Ok(())
                }
                Some(rotten) => {
                    let lost = |range: &mnemolog::codec::frame::LostRange| range.first.0..=range.last.0;
                    let strange =
                        repaired.lost.iter().flat_map(lost).find(|frame| !rotten.hit.contains(frame));
                    ensure!(rotten.wide || strange.is_none(), "the repair says that it lost {strange:?}");

                    self.repaired()
                }
            },
            Err(Error::NoSuchStore { .. }) if self.truth.last() == 0 => Ok(()),
            Err(e) => {
                let alive = disk.is_alive();
                if self.rotten.is_some() {
                    let what = if alive { "repairs that failed" } else { "repairs that were interrupted" };
                    self.counts.met(what);
                }
                self.excuse(&e, alive, "repairing")
            }
        }
    }

    /// A log that was just repaired is whole and opens, unless a fault meets that.
    fn repaired(&mut self) -> Check {
        if self.writers.iter().any(|own| own.store.is_some()) {
            return Ok(());
        }
        let process = self.disk.process();
        let opened = self.options(Kind::One).open_on(Arc::new(process.clone()));
        match opened {
            Ok(store) => {
                self.opened_rotten(&store)?;
                let report = self.disk.undisturbed(|| verify(&process));
                process.kill();
                match report {
                    Ok(report) => {
                        ensure!(report.is_whole(), "repaired, and damaged: {:?}", report.findings);
                        Ok(())
                    }
                    Err(e) => self.excuse(&e, self.disk.is_alive(), "verifying"),
                }
            }
            Err(e) => self.excuse(&e, self.disk.is_alive(), "opening after a repair"),
        }
    }
}

/// What each frame says.
fn lines(store: &Store) -> Check<BTreeMap<u64, String>> {
    // A dump ends at a frame that is there.
    let end = match store.at(store.appended()) {
        Err(Error::Lost { first, .. }) => first.previous(),
        _ => store.appended(),
    };
    let mut text = Vec::new();
    dump(store, &mut text, DumpOptions { up_to: Some(end) }).map_err(|e| format!("no dump: {e}"))?;
    let mut frames: BTreeMap<u64, String> = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        let number = line.strip_prefix("{\"frame\":").and_then(|rest| rest.split(',').next());
        let number = number.and_then(|number| number.parse().ok()).ok_or("a line without its frame")?;
        frames.entry(number).or_default().push_str(line);
    }
    Ok(frames)
}

/// All frames of all files.
fn places(disk: &MemoryDisk) -> Vec<Place> {
    let mut places = Vec::new();
    for path in disk.files().into_iter().filter(|path| path.ends_with(".seg")) {
        let bytes = disk.read_file(&path).unwrap_or_default();
        let Ok(header) = SegmentHeader::decode_either(&bytes) else { continue };
        let (seed, mut from) = (Seed::new(header.salt), FRAMES_START as usize);
        while let Some(Ok(found)) = bytes.get(from..).map(|rest| frame::decode(rest, from as u64, &seed)) {
            let to = from + found.header.frame_bytes();
            let (kind, number) = (found.header.kind, found.header.number.0);
            places.push(Place { path: path.clone(), from, to, kind, number });
            from = to;
        }
    }
    places
}

/// Changes bytes; answers the commits that were touched, or none if there is nothing to change.
fn change(disk: &MemoryDisk, rot: Rot, places: &[Place], rng: &mut Rng) -> Option<BTreeSet<u64>> {
    let pick = |rng: &mut Rng| places.get(rng.below(places.len().max(1) as u64) as usize);
    let place = pick(rng)?.clone();
    let bytes = disk.read_file(&place.path)?;
    let overwrite = |path: &str, at: usize, new: &[u8]| disk.overwrite(path, at as u64, new).ok();
    let touched = |path: &str, from: usize, to: usize| -> BTreeSet<u64> {
        let hit = |p: &&Place| p.kind == FrameKind::Commit && p.path == path && p.from < to && from < p.to;
        places.iter().filter(hit).map(|p| p.number).collect()
    };
    match rot {
        Rot::Flip => {
            for _ in 0..=rng.below(3) {
                let at = place.from as u64 + rng.below((place.to - place.from) as u64);
                disk.flip(&place.path, at, rng.below(8) as u8).ok()?;
            }
            Some(touched(&place.path, place.from, place.to))
        }
        Rot::Zeros | Rot::Garbage => {
            let sector = rng.below(place.to.div_ceil(512) as u64) as usize * 512;
            let mut new = vec![0; 512.min(bytes.len().saturating_sub(sector))];
            if rot == Rot::Garbage {
                new.fill_with(|| rng.next() as u8);
            }
            overwrite(&place.path, sector, &new)?;
            Some(touched(&place.path, sector, sector + new.len()))
        }
        Rot::Misdirected => {
            let target = pick(rng)?;
            let room = disk.read_file(&target.path)?.len().saturating_sub(target.from);
            let moved = &bytes[place.from..place.to.min(place.from + room)];
            let mut hit = touched(&target.path, target.from, target.from + moved.len());
            if rng.chance(2) {
                overwrite(&place.path, place.from, &vec![0; place.to - place.from])?;
                hit.extend(touched(&place.path, place.from, place.to));
            }
            overwrite(&target.path, target.from, moved)?;
            Some(hit)
        }
        Rot::Duplicate => {
            let end = places.iter().filter(|p| p.path == place.path).map(|p| p.to).max()?;
            let copy = &bytes[place.from..place.to];
            overwrite(&place.path, end, &copy[..copy.len().min(bytes.len().saturating_sub(end))])?;
            Some(BTreeSet::new())
        }
        Rot::NoFile => {
            // Whether a part of a base is missing with it, nobody could tell: that is not repaired.
            let is_base = |path: &String| path.ends_with(".base");
            if place.path == places.first()?.path && disk.files().iter().any(is_base) {
                return None;
            }
            disk.remove_file(&place.path).ok()?;
            Some(touched(&place.path, 0, usize::MAX))
        }
        Rot::Header => {
            for at in [0, 2048].into_iter().take(1 + rng.below(2) as usize) {
                let new: Vec<u8> = (0..64).map(|_| rng.next() as u8).collect();
                overwrite(&place.path, at, &new)?;
            }
            Some(BTreeSet::new())
        }
        Rot::Promise => {
            disk.flip("DURABLE", rng.below(64), rng.below(8) as u8).ok()?;
            Some(BTreeSet::new())
        }
    }
}
