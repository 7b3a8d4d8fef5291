//! A store: the public entry, and the names of the places inside one.

pub mod name;
