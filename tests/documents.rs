//! README and the book: the output they show is what the command prints, and their links exist.
//!
//! These kinds of fenced blocks are read. `console` is a session in a clone: the lines after a
//! line with `$ ` are what that command writes to standard output, and a line `...` matches any
//! number of lines. `console release` is a session that takes too long unless optimised.
//! `toml NAME` is a file that the page's commands read, and `rust PATH` a file of the repository.
//! Commands in `sh` blocks are not run, but their options must exist.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const BOOK: &str = "docs/src";
const SUMMARY: &str = "docs/src/SUMMARY.md";
/// Line of a page that replaces uninteresting lines of a command's output.
const ELLIPSIS: &str = "...";
/// Most lines of README: a short introduction, and the way into the book.
const README_LINES: usize = 150;

/// A document, split into fenced blocks and prose.
struct Page {
    path: PathBuf,
    blocks: Vec<Block>,
    prose: String,
}

/// A fenced block, with the words after its opening fence.
struct Block {
    kind: String,
    lines: Vec<String>,
}

impl Page {
    fn read(path: PathBuf) -> Self {
        let content = fs::read_to_string(Path::new(ROOT).join(&path)).unwrap();
        let (mut blocks, mut prose) = (Vec::<Block>::new(), String::new());
        let mut inside = false;
        for line in content.lines() {
            match line.strip_prefix("```") {
                Some(_) if inside => inside = false,
                Some(kind) => {
                    inside = true;
                    blocks.push(Block { kind: kind.to_owned(), lines: Vec::new() });
                }
                None if inside => blocks.last_mut().unwrap().lines.push(line.trim_end().to_owned()),
                None => prose.extend([line, "\n"]),
            }
        }
        assert!(!inside, "{}: a fence is left open", path.display());
        Self { path, blocks, prose }
    }

    /// The lines of each block of that kind.
    fn blocks<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a [String]> {
        self.blocks.iter().filter(move |block| block.kind == kind).map(|block| block.lines.as_slice())
    }

    /// Targets of links and pictures inside the repository, as written.
    fn targets(&self) -> impl Iterator<Item = &str> {
        let targets = self.prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.filter(|target| !target.starts_with("http")).map(|target| target.split('#').next().unwrap())
    }

    /// The file that a link refers to, relative to the root of the repository.
    fn linked(&self, target: &str) -> PathBuf {
        let mut path = self.path.parent().unwrap().to_path_buf();
        for part in target.split('/') {
            match part {
                "." => {}
                ".." => assert!(path.pop(), "{}: {target} leads out of the repository", self.path.display()),
                name => path.push(name),
            }
        }
        path
    }
}

/// The Markdown files below a folder of the repository.
fn markdown(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if Path::new(ROOT).join(&path).is_dir() {
            found.extend(markdown(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// README, the documents next to it, and the pages of the book.
fn pages() -> Vec<Page> {
    let beside = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from);
    beside.into_iter().chain(markdown(Path::new(BOOK))).map(Page::read).collect()
}

/// A folder with everything in the clone that a page's commands may read, and the page's files.
fn clone_with_files_of(page: &Page) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["data", "device-profiles", "fit", "import", "scenarios"] {
        std::os::unix::fs::symlink(Path::new(ROOT).join(name), folder.path().join(name)).unwrap();
    }
    for block in &page.blocks {
        if let Some(name) = block.kind.strip_prefix("toml ") {
            fs::write(folder.path().join(name), block.lines.join("\n")).unwrap();
        }
    }
    folder
}

/// Standard output of a line `coexec ...`, or of `cat`.
fn printed(folder: &Path, line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut command = match words.next() {
        Some("coexec") => Command::new(assert_cmd::cargo::cargo_bin!("coexec")),
        Some("cat") => Command::new("cat"),
        other => panic!("{other:?} is not run in documents"),
    };
    let output = command.args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that `shown` matches what was printed, where an ellipsis matches any lines.
fn assert_shown(shown: &[String], printed: &str, what: &str) {
    let printed: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
    let pieces: Vec<&[String]> = shown.split(|line| line == ELLIPSIS).collect();
    let mut from = 0;
    for (index, piece) in pieces.iter().enumerate() {
        let matches = |at: &usize| {
            printed.get(*at..*at + piece.len()).is_some_and(|lines| lines.iter().eq(piece.iter()))
        };
        // The part before the first ellipsis starts the output, the part after the last one ends it.
        let is_last = index + 1 == pieces.len();
        let first = if is_last { from.max(printed.len().saturating_sub(piece.len())) } else { from };
        let mut places = if index == 0 { 0..=0 } else { first..=printed.len() };
        let Some(at) = places.find(matches) else {
            panic!("{what}\nprints, in this order, no\n{}\n\nbut\n{}", piece.join("\n"), printed.join("\n"));
        };
        from = at + piece.len();
    }
    assert_eq!(from, printed.len(), "{what}\nprints more:\n{}", printed[from..].join("\n"));
}

/// Asserts that a picture of the book is unchanged if the page's commands redrew it.
fn assert_pictures(folder: &Path) {
    for entry in fs::read_dir(Path::new(ROOT).join(BOOK).join("figures")).unwrap() {
        let shown = entry.unwrap();
        for drawn in [folder.join(shown.file_name()), folder.join("figures").join(shown.file_name())] {
            if let Ok(drawn) = fs::read(drawn) {
                assert!(drawn == fs::read(shown.path()).unwrap(), "draw {} again", shown.path().display());
            }
        }
    }
}

/// Runs the sessions of a kind, those of each page in a separate folder, and returns their number.
fn run_sessions(kind: &str) -> usize {
    let mut count = 0;
    for page in pages() {
        let folder = clone_with_files_of(&page);
        for lines in page.blocks(kind) {
            let starts = (0..lines.len()).filter(|line| lines[*line].starts_with("$ ")).collect::<Vec<_>>();
            assert_eq!(starts.first(), Some(&0), "{}: a session begins with a command", page.path.display());
            let ends = starts.iter().skip(1).copied().chain([lines.len()]);
            for (start, end) in starts.iter().zip(ends) {
                let line = lines[*start].trim_start_matches("$ ");
                let what = format!("{}: {line}", page.path.display());
                assert_shown(&lines[start + 1..end], &printed(folder.path(), line), &what);
                count += 1;
            }
        }
        assert_pictures(folder.path());
    }
    count
}

#[test]
fn what_is_shown_is_what_the_commands_print() {
    let count = run_sessions("console");
    assert!(count >= 20, "{count} commands are shown");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "minutes unless optimised")]
fn what_takes_long_to_compute_is_what_the_commands_print() {
    assert!(run_sessions("console release") >= 3);
}

#[test]
fn the_command_knows_the_options_of_every_line_that_is_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = BTreeSet::new();
    for page in pages() {
        for lines in page.blocks("sh") {
            let script = lines.join("\n").replace("\\\n", " ");
            for line in script.lines().filter_map(|line| line.strip_prefix("coexec ")) {
                let line = line.split(['#', '>', '|']).next().unwrap();
                printed(folder.path(), &format!("coexec {line} --help"));
                known.extend(line.split_whitespace().next().map(str::to_owned));
            }
        }
    }
    for command in ["calibrate", "probe", "report", "run"] {
        assert!(known.contains(command), "no document says how to {command}");
    }
}

#[test]
fn the_groups_that_miss_their_limit_are_counted_right() {
    let page = Page::read(Path::new(BOOK).join("papers.md"));
    let rows: Vec<&String> = page.blocks("console release").flatten().collect();
    let [missed, held] = ["missed", "holds"].map(|end| rows.iter().filter(|row| row.ends_with(end)).count());
    let counted = format!("{missed} of the {} judged groups miss their limit", missed + held);
    for page in [page, Page::read(PathBuf::from("README.md"))] {
        assert!(page.prose.contains(&counted), "{} does not say that {counted}", page.path.display());
    }
}

#[test]
fn examples_are_shown_as_they_are() {
    let page = Page::read(Path::new(BOOK).join("library.md"));
    let examples = page.blocks.iter().filter_map(|block| Some((block, block.kind.strip_prefix("rust ")?)));
    let mut count = 0;
    for (block, path) in examples {
        let content = fs::read_to_string(Path::new(ROOT).join(path)).unwrap();
        assert!(content.lines().eq(block.lines.iter()), "{path}");
        count += 1;
    }
    assert_eq!(count, 2);
}

#[test]
fn everything_that_is_linked_exists_and_the_book_links_only_into_itself() {
    let mut count = 0;
    for page in pages() {
        for target in page.targets().filter(|target| !target.is_empty()) {
            let linked = page.linked(target);
            assert!(Path::new(ROOT).join(&linked).exists(), "{}: {target}", page.path.display());
            let in_book = page.path.starts_with(BOOK);
            assert!(
                !in_book || linked.starts_with(BOOK),
                "{}: {target} is not in the book",
                page.path.display()
            );
            count += 1;
        }
    }
    assert!(count > 50, "{count} links");
}

#[test]
fn the_summary_lists_every_page_of_the_book_once() {
    let summary = Page::read(PathBuf::from(SUMMARY));
    let listed: Vec<PathBuf> = summary.targets().map(|target| summary.linked(target)).collect();
    let mut pages = markdown(Path::new(BOOK));
    pages.retain(|page| *page != Path::new(SUMMARY));
    assert_eq!(listed.len(), pages.len(), "{listed:?}");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), pages.into_iter().collect());
}

#[test]
fn every_picture_of_the_book_is_shown_and_readme_is_short() {
    let shown: BTreeSet<PathBuf> = pages()
        .iter()
        .flat_map(|page| page.targets().map(|target| page.linked(target)).collect::<Vec<_>>())
        .collect();
    for entry in fs::read_dir(Path::new(ROOT).join(BOOK).join("figures")).unwrap() {
        let picture = Path::new(BOOK).join("figures").join(entry.unwrap().file_name());
        assert!(shown.contains(&picture), "no page shows {}", picture.display());
    }
    let lines = fs::read_to_string(Path::new(ROOT).join("README.md")).unwrap().lines().count();
    assert!(lines <= README_LINES, "README has {lines} lines");
}
