//! nginx behind Tidegate: what it says about a file with few words reaches clients as it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::curl::{Site, WAYS};
use crate::support::port;
use crate::support::process::Process;

struct Nginx {
    port: u16,
    _process: Process,
    _folder: TempDir,
}

impl Nginx {
    /// Serves these files, compressed where clients like that.
    fn serving(files: &[(&str, &[u8])]) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), port::free());
        let place = folder.path();
        fs::create_dir(place.join("files")).unwrap();
        for (name, bytes) in files {
            fs::write(place.join("files").join(name), bytes).unwrap();
        }
        fs::write(place.join("nginx.conf"), configuration(place, port)).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-p").arg(place).args(["-e", "stderr", "-c", "nginx.conf"]);
        let mut process = Process::start(&mut command);
        port::wait_until_open(port, &mut process);
        Self { port, _process: process, _folder: folder }
    }
}

/// One process, which ends with the test.
fn configuration(place: &Path, port: u16) -> String {
    let place = place.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {place}/{kind};\n"))
        .concat();
    format!(
        "daemon off;
master_process off;
pid {place}/nginx.pid;
error_log stderr;
events {{ worker_connections 256; }}
http {{
  access_log off;
{temporary}  default_type text/plain;
  gzip on;
  gzip_min_length 1;
  gzip_types text/plain;
  server {{
    listen 127.0.0.1:{port};
    root {place}/files;
    location = /nothing {{ return 204; }}
  }}
}}
"
    )
}

fn text() -> Vec<u8> {
    (0..20_000).flat_map(|number| format!("line {number}\n").into_bytes()).collect()
}

#[test]
fn compressed_and_in_parts() {
    let file = text();
    let nginx = Nginx::serving(&[("file", &file)]);
    let site = Site::start(nginx.port);
    for way in WAYS {
        assert!(site.download(way, "/file", &[]) == file, "{way:?}");
        assert!(site.download(way, "/file", &["--compressed"]) == file, "{way:?}");
        let head = site.curl(
            way,
            &["--compressed", "--dump-header", "-", "--output", "/dev/null", &site.url(way, "/file")],
        );
        assert!(head.stdout.to_lowercase().contains("content-encoding: gzip"), "{way:?}: {}", head.stdout);

        assert_eq!(site.download(way, "/file", &["--range", "1000-1999"]), file[1000..2000], "{way:?}");
        assert_eq!(site.download(way, "/file", &["--range", "-10"]), file[file.len() - 10..], "{way:?}");
        let part = site.curl(way, &["--include", "--range", "0-3", &site.url(way, "/file")]).stdout;
        assert!(part.contains(" 206"), "{way:?}: {part}");
        let range = format!("content-range: bytes 0-3/{}", file.len());
        assert!(part.to_lowercase().contains(&range), "{way:?}: {part}");
        let beyond = site.curl(way, &["--include", "--range", "99999999-", &site.url(way, "/file")]).stdout;
        assert!(beyond.contains(" 416"), "{way:?}: {beyond}");
    }
}

/// Answers whose head speaks of a body that does not come; what follows on the connection is the next answer.
#[test]
fn answers_without_a_body() {
    let file = text();
    let nginx = Nginx::serving(&[("file", &file)]);
    let site = Site::start(nginx.port);
    for way in WAYS {
        let (url, nothing) = (site.url(way, "/file"), site.url(way, "/nothing"));
        let head = site.curl(way, &["--head", &url]).stdout;
        let length = format!("content-length: {}", file.len());
        assert!(head.to_lowercase().contains(&length), "{way:?}: {head}");
        let tag = head.lines().find_map(|line| line.to_lowercase().strip_prefix("etag: ").map(str::to_owned));
        let tag = format!("If-None-Match: {}", tag.unwrap());
        let same = site.curl(way, &["--include", "--header", &tag, &url]).stdout;
        assert!(same.contains(" 304"), "{way:?}: {same}");
        assert_eq!(same.split_once("\r\n\r\n").unwrap().1, "", "{way:?}");
        let none = site.curl(way, &["--include", &nothing]).stdout;
        assert!(none.contains(" 204"), "{way:?}: {none}");

        if !way.is_reused() {
            continue;
        }
        // One connection for all of them.
        let verbose = site.curl(way, &["--verbose", "--header", &tag, "--include", &url, &nothing, &url]);
        assert_eq!(verbose.stderr.matches("Re-using existing connection").count(), 2, "{way:?}");
        assert_eq!(verbose.stdout.matches(" 304").count(), 2, "{way:?}: {}", verbose.stdout);
    }
}
