//! An agent told a visitor something that its notes do not say. What did it know when it spoke?
//!
//! A note is saved and deleted, another is overwritten; the past shows all of them as they were, and the
//! comparison explains what happened since. Run it with `cargo run --example what_did_it_know`.

use mnemolog::view::diff::Content;
use mnemolog::{Json, Origin, Result, Store};

fn main() -> Result<()> {
    let store = Store::in_memory()?;
    let guide = store.workspace("guide")?;
    let by = |session: &str| Origin { session: Some(session.to_owned()), ..Origin::default() };
    let monday = guide.with_origin(by("monday"))?;
    monday.notes().remember("door/code", "the code of the door", "4711")?;
    monday.notes().remember("opening", "when we are open", "ten to six")?;
    monday.notes().remember("visitors/ines", "comes on Thursday", "Wants to see the meridian circle.")?;
    monday.episodic("turns")?.record("answer", &Json::string("We open at ten; the code is 4711."))?;
    let spoke = store.appended();

    let friday = guide.with_origin(by("friday"))?;
    friday.notes().forget("door/code")?;
    friday.notes().remember("opening", "when we are open", "eleven to six")?;
    let notes = guide.notes();

    println!("What it knows now:\n{}", notes.list_memories());
    println!("\nWhat it knew at frame {spoke}:");
    let then = store.at(spoke)?.workspace("guide")?.notes();
    for key in ["door/code", "opening", "visitors/ines"] {
        println!("- {key}: {}", then.recall(key));
    }
    println!("\nWhat became of it since:");
    let text = |side: &Option<Content>| side.as_ref().map_or("nothing".into(), |s| s.text().to_owned());
    for item in store.diff(spoke, store.appended())?.handles.into_iter().flat_map(|handle| handle.items) {
        let (before, after) = (text(&item.before), text(&item.after));
        println!("- {} {}: {before} -> {after}", item.change.name(), item.item);
    }
    println!("\nWho took the code away:");
    for version in notes.history("door/code") {
        let version = version?;
        let session = version.origin.and_then(|origin| origin.session).unwrap_or_default();
        println!("- frame {}: {} on {session}", version.frame, version.operation.name());
    }
    notes.restore("door/code", spoke)?;
    println!("\nBrought back: {}", notes.recall("door/code"));
    Ok(())
}
