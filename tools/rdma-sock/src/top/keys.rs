// SPDX-License-Identifier: GPL-2.0

//! The keys of the live view.

use ratatui::crossterm::event::{
    KeyCode,
    KeyEvent,
    KeyEventKind,
    KeyModifiers, //
};

use super::model::{
    Model,
    Popup, //
};

/// Number of connections that a page key moves by.
const PAGE: isize = 10;

/// What each key does, for the help.
pub(super) const HELP: &[(&str, &str)] = &[
    ("q", "leave"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "show only connections with a text; Esc shows all"),
    ("↑ ↓", "select a connection (also k, j, PgUp, PgDn)"),
    ("Enter", "say why the selected connection is TCP"),
    ("p", "pause, or go on"),
    ("?", "show these keys"),
];

/// Whether the view goes on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Flow {
    /// It does.
    Continue,
    /// The user leaves.
    Leave,
}

/// Does what a key asks for.
pub(super) fn handle(model: &mut Model, key: KeyEvent) -> Flow {
    if key.kind == KeyEventKind::Release {
        return Flow::Continue;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        let leaves = matches!(key.code, KeyCode::Char('c' | 'd'));
        return if leaves { Flow::Leave } else { Flow::Continue };
    }
    if model.editing {
        edit(model, key.code);
        return Flow::Continue;
    }
    if model.popup != Popup::None {
        model.popup = Popup::None;
        return Flow::Continue;
    }
    match key.code {
        KeyCode::Char('q') => return Flow::Leave,
        KeyCode::Char('s') => model.sort = model.sort.next(),
        KeyCode::Char('r') => model.reverse = !model.reverse,
        KeyCode::Char('/') => model.editing = true,
        KeyCode::Esc => model.filter.clear(),
        KeyCode::Char('p') => model.paused = !model.paused,
        KeyCode::Char('?' | 'h') => model.popup = Popup::Help,
        KeyCode::Up | KeyCode::Char('k') => model.select(-1),
        KeyCode::Down | KeyCode::Char('j') => model.select(1),
        KeyCode::PageUp => model.select(-PAGE),
        KeyCode::PageDown => model.select(PAGE),
        KeyCode::Home => model.select(isize::MIN),
        KeyCode::End => model.select(isize::MAX),
        KeyCode::Enter if model.selected().is_some() => model.popup = Popup::Explain,
        _ => {}
    }
    Flow::Continue
}

fn edit(model: &mut Model, code: KeyCode) {
    match code {
        KeyCode::Char(character) => model.filter.push(character),
        KeyCode::Backspace => {
            model.filter.pop();
        }
        KeyCode::Esc => {
            model.filter.clear();
            model.editing = false;
        }
        KeyCode::Enter => model.editing = false,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::{
        model::tests::model,
        sort::SortKey, //
    };

    fn press(model: &mut Model, code: KeyCode) -> Flow {
        handle(model, KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn filter_is_written_between_slash_and_enter() {
        let mut model = model();
        for character in "/nginq".chars() {
            assert_eq!(press(&mut model, KeyCode::Char(character)), Flow::Continue);
        }
        press(&mut model, KeyCode::Backspace);
        press(&mut model, KeyCode::Enter);
        assert_eq!(model.filter, "ngin");
        assert!(!model.editing);
        assert_eq!(model.visible().len(), 2);
        press(&mut model, KeyCode::Esc);
        assert_eq!(model.filter, "");
    }

    #[test]
    fn any_key_closes_the_popup_that_enter_opens() {
        let mut model = model();
        press(&mut model, KeyCode::Enter);
        assert_eq!(model.popup, Popup::None, "nothing is selected");
        press(&mut model, KeyCode::Down);
        press(&mut model, KeyCode::Enter);
        assert_eq!(model.popup, Popup::Explain);
        assert_eq!(press(&mut model, KeyCode::Char('q')), Flow::Continue);
        assert_eq!(model.popup, Popup::None);
    }

    #[test]
    fn letters_change_order_and_leave() {
        let mut model = model();
        press(&mut model, KeyCode::Char('s'));
        press(&mut model, KeyCode::Char('r'));
        press(&mut model, KeyCode::Char('p'));
        assert_eq!((model.sort, model.reverse), (SortKey::Sent, true));
        assert!(model.paused);
        assert_eq!(press(&mut model, KeyCode::Char('q')), Flow::Leave);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(handle(&mut model, interrupt), Flow::Leave);
    }
}
