//! An embedded, event-sourced memory engine for LLM agents.
