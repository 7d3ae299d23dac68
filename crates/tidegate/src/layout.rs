//! Tables and paragraphs for a terminal.

use std::fmt::Write;

use anstyle::Style;

use crate::output::{FAINT, styled};

/// Where the result is not shown on a terminal, so that a file reads the same everywhere.
const WIDTH: usize = 100;

/// How wide lines may be.
pub(crate) fn width() -> usize {
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(columns), _)) => usize::from(columns).clamp(60, 160),
        None => WIDTH,
    }
}

/// A part of a table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&styled(self.style, &self.text))
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Style::new(), text)
    }
}

/// Rows of cells, with remarks below a row where there is more to say.
#[derive(Debug)]
pub(crate) struct Table {
    indent: usize,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    cells: Vec<Cell>,
    remarks: Vec<String>,
}

impl Table {
    pub(crate) fn new(indent: usize, head: &[&str]) -> Self {
        let cells = head.iter().map(|name| Cell::new(FAINT, *name)).collect();
        Self { indent, rows: vec![Row { cells, remarks: Vec::new() }] }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>, remarks: Vec<String>) {
        self.rows.push(Row { cells, remarks });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The columns as wide as their widest cell; the last one ends where it ends.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
                cells.map(|cell| cell.text.chars().count()).max().unwrap_or_default()
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            let last = row.cells.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or_default();
            for (cell, width) in row.cells[..=last].iter().zip(&widths) {
                line.push_str(&styled(cell.style, &cell.text));
                line.push_str(&" ".repeat(width - cell.text.chars().count() + 2));
            }
            let _ = writeln!(text, "{}", line.trim_end());
            for remark in &row.remarks {
                text.push_str(&paragraph(self.indent + 4, remark));
            }
        }
        text
    }
}

/// Words broken into lines that begin at `indent`.
pub(crate) fn paragraph(indent: usize, words: &str) -> String {
    let room = width().saturating_sub(indent).max(30);
    let mut text = String::new();
    let mut line = String::new();
    for word in words.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            let _ = writeln!(text, "{:indent$}{line}", "");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        let _ = writeln!(text, "{:indent$}{line}", "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(2, &["A", "LONG", "C"]);
        table.row(vec!["wide cell".into(), "x".into(), "y".into()], vec!["a remark".to_owned()]);
        table.row(vec!["z".into()], Vec::new());
        let plain = anstream::adapter::strip_str(&table.render()).to_string();
        assert_eq!(plain, "  A          LONG  C\n  wide cell  x     y\n      a remark\n  z\n");
    }

    #[test]
    fn paragraphs_break_between_words() {
        let words = "word ".repeat(40);
        let text = paragraph(4, &words);
        assert!(text.lines().all(|line| line.starts_with("    word") && line.len() <= width()));
        assert_eq!(text.matches("word").count(), 40);
    }
}
