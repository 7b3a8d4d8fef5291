//! The knowledge graph of the reference MCP memory server: JSON lines, each an entity or a relation.
//!
//! An entity becomes a note: its name is the key, its type and first observation are the summary, and the body holds
//! type, observations and the relations that it is an end of, as sentences. It knows no store.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufRead};

use super::{ImportReason, Parsed, Place, summary};
use crate::codec::delta::HandleKind;
use crate::interchange::line::fields::{Field, Fields};
use crate::interchange::line::numbered::Numbered;
use crate::interchange::line::reason::LineReason;
use crate::interchange::line::{Args, NoteArgs, NoteText};

/// Parses a knowledge graph: `{"type":"entity","name":…,"entityType":…,"observations":[…]}` and
/// `{"type":"relation","from":…,"to":…,"relationType":…}`, one a line. Entities of one name become one note.
///
/// # Errors
/// What reading answers. Whatever is wrong with a line is in [`Parsed::problems`].
pub fn mcp_memory(input: &mut dyn BufRead) -> io::Result<Parsed> {
    let mut graph = Graph::default();
    let mut lines = Numbered::new(input);
    while let Some((number, text)) = lines.next()? {
        if let Err(reason) = graph.line(number, text) {
            graph.problems.push((number, reason, true));
        }
    }
    Ok(graph.parsed())
}

#[derive(Default)]
struct Graph {
    entities: Vec<Entity>,
    by_name: HashMap<String, usize>,
    relations: Vec<Relation>,
    /// The line of each relation.
    said: HashMap<(String, String, String), u64>,
    /// Line, reason, whether it does not come in.
    problems: Vec<(u64, ImportReason, bool)>,
}

struct Entity {
    line: u64,
    name: String,
    types: Vec<String>,
    observations: Vec<String>,
    /// Sentences.
    relations: Vec<String>,
}

struct Relation {
    line: u64,
    from: String,
    to: String,
    relation: String,
}

impl Graph {
    fn line(&mut self, number: u64, bytes: &[u8]) -> Result<(), ImportReason> {
        let text = std::str::from_utf8(bytes)
            .map_err(|e| LineReason::NotUtf8 { at: e.valid_up_to().saturating_add(1) })?;
        let mut fields = Fields::parse(text, "the line", "a line")?;
        let found = fields.required("type")?.text()?;
        match found.as_str() {
            "entity" => self.entity(number, &mut fields)?,
            "relation" => self.relation(number, &mut fields)?,
            _ => return Err(ImportReason::UnknownType { found }),
        }
        for field in fields.names() {
            self.problems.push((number, ImportReason::Unused { field: field.to_owned() }, false));
        }
        Ok(())
    }

    fn note(&mut self, number: u64, reason: impl Into<ImportReason>) {
        self.problems.push((number, reason.into(), false));
    }

    fn entity(&mut self, number: u64, fields: &mut Fields<'_>) -> Result<(), ImportReason> {
        let name = fields.required("name")?.text()?;
        let kind = fields.required("entityType").and_then(Field::text);
        let observations = fields.required("observations").and_then(Field::array);
        let entity = match self.by_name.get(&name).copied() {
            Some(at) => {
                let first = self.entities.get(at).map_or(0, |entity| entity.line);
                self.note(number, ImportReason::SameName { first });
                at
            }
            None => {
                let (types, observations, relations) = Default::default();
                self.by_name.insert(name.clone(), self.entities.len());
                self.entities.push(Entity { line: number, name, types, observations, relations });
                self.entities.len() - 1
            }
        };
        let mut texts = Vec::new();
        match observations {
            Ok(fields) => {
                for (field, number_in_line) in fields.into_iter().zip(1..) {
                    match field.text() {
                        Ok(text) => texts.push(text),
                        Err(_) => self.note(number, ImportReason::Observation { number: number_in_line }),
                    }
                }
            }
            Err(reason) => self.note(number, reason),
        }
        let kind = kind.map_err(|reason| self.note(number, reason)).ok();
        if let Some(entity) = self.entities.get_mut(entity) {
            let again = entity.line != number;
            entity.types.extend(kind.filter(|kind| !entity.types.contains(kind)));
            // An entity that stands twice adds what is new; within one line, everything stays as it is.
            texts.retain(|text| !again || !entity.observations.contains(text));
            entity.observations.append(&mut texts);
        }
        Ok(())
    }

    fn relation(&mut self, line: u64, fields: &mut Fields<'_>) -> Result<(), ImportReason> {
        let mut text = |name| fields.required(name).and_then(Field::text);
        let (from, to, relation) = (text("from")?, text("to")?, text("relationType")?);
        let said = (from.clone(), to.clone(), relation.clone());
        if let Some(first) = self.said.get(&said).copied() {
            self.note(line, ImportReason::SameRelation { first });
            return Ok(());
        }
        self.said.insert(said, line);
        self.relations.push(Relation { line, from, to, relation });
        Ok(())
    }

    fn parsed(mut self) -> Parsed {
        for Relation { line, from, to, relation } in std::mem::take(&mut self.relations) {
            let sentence = format!("{from} {relation} {to}");
            let (a, b) = (self.by_name.get(&from).copied(), self.by_name.get(&to).copied());
            let ends = [a, b.filter(|_| a != b)];
            match (a, b) {
                (None, None) => self.problems.push((line, ImportReason::NoEnds, true)),
                (None, Some(_)) => self.note(line, ImportReason::Dangling { name: from }),
                (Some(_), None) => self.note(line, ImportReason::Dangling { name: to }),
                (Some(_), Some(_)) => {}
            }
            for end in ends.into_iter().flatten() {
                if let Some(entity) = self.entities.get_mut(end) {
                    entity.relations.push(sentence.clone());
                }
            }
        }
        let mut parsed = Parsed::new(HandleKind::Notes);
        for entity in self.entities {
            parsed.item(Place::Line(entity.line), entity.note());
        }
        self.problems.sort_by_key(|(line, ..)| *line);
        for (line, reason, refused) in self.problems {
            let place = Place::Line(line);
            if refused { parsed.refuse(place, reason) } else { parsed.note(place, reason) }
        }
        parsed
    }
}

impl Entity {
    fn note(self) -> Args<'static> {
        let Entity { name, types, observations, relations, .. } = self;
        let types = types.join(", ");
        let first = observations.iter().find_map(|text| text.lines().find(|line| !line.trim().is_empty()));
        let said = match (types.as_str(), first) {
            ("", None) => None,
            ("", Some(first)) => Some(first.to_owned()),
            (types, None) => Some(types.to_owned()),
            (types, Some(first)) => Some(format!("{types}: {}", first.trim())),
        };
        let mut parts = Vec::new();
        if !types.is_empty() {
            parts.push(format!("type: {types}"));
        }
        for (title, list) in [("observations", observations), ("relations", relations)] {
            if !list.is_empty() {
                // A line break in an item goes on below its beginning, so that no item can look like two.
                let items = list.iter().map(|item| format!("\n- {}", item.replace('\n', "\n  ")));
                parts.push(format!("{title}:{}", items.collect::<String>()));
            }
        }
        Args::Remember(NoteArgs {
            key: name.into(),
            summary: said.map(|text| Cow::Owned(summary(&text))),
            body: NoteText::Text(parts.join("\n\n").into()),
        })
    }
}
