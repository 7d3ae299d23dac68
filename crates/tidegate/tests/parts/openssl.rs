//! OpenSSL's client and server as tests want them.

use std::path::Path;
use std::process::Command;

use crate::support::certificate::{Authority, Identity};
use crate::support::process::{Finished, Process};
use tempfile::TempDir;

/// `openssl s_server` for any number of connections, one after the other.
pub(crate) struct Server {
    pub(crate) port: u16,
    process: Process,
    _folder: TempDir,
}

impl Server {
    /// Sends back each line in reverse.
    pub(crate) fn reversing(identity: &Identity) -> Self {
        Self::start_in(Path::new("/"), identity, &["-rev"])
    }

    /// In a folder, whose files `-WWW` serves and `-CAfile` may name.
    pub(crate) fn start_in(content: &Path, identity: &Identity, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = identity.write(folder.path(), "server");
        let mut command = Command::new("openssl");
        command.current_dir(content);
        command.args(["s_server", "-accept", "127.0.0.1:0"]).args(arguments);
        command.arg("-cert").arg(files.certificate).arg("-key").arg(files.key);
        let mut process = Process::start(&mut command);
        let line = process.says("ACCEPT 127.0.0.1:");
        let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok());
        Self { port: port.unwrap_or_else(|| panic!("{line:?}")), process, _folder: folder }
    }

    /// Waits until it says `words` of a connection.
    pub(crate) fn says(&mut self, words: &str) {
        self.process.says(words);
    }

    pub(crate) fn said(&self) -> String {
        self.process.stdout()
    }
}

/// `openssl s_client`, which trusts one authority and insists on a good certificate.
pub(crate) struct Client {
    command: Command,
    folder: TempDir,
}

impl Client {
    pub(crate) fn to(port: u16, name: &str, authority: &Authority) -> Self {
        let mut client = Self::without_name(port, authority);
        client.command.args(["-servername", name]);
        let host = name.trim_end_matches('.');
        client.command.args(["-verify_hostname", host]);
        client
    }

    pub(crate) fn without_name(port: u16, authority: &Authority) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("openssl");
        command.args([
            "s_client",
            "-connect",
            &format!("127.0.0.1:{port}"),
            "-verify_return_error",
            "-nocommands",
        ]);
        command.arg("-CAfile").arg(authority.write(folder.path()));
        Self { command, folder }
    }

    pub(crate) fn with(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    pub(crate) fn with_file(mut self, flag: &str, path: &Path) -> Self {
        self.command.arg(flag).arg(path);
        self
    }

    pub(crate) fn with_identity(mut self, identity: &Identity) -> Self {
        let files = identity.write(self.folder.path(), "client");
        self.command.arg("-cert").arg(files.certificate).arg("-key").arg(files.key);
        self
    }

    /// Shakes hands, says nothing, and closes.
    pub(crate) fn look(mut self) -> Finished {
        Process::run(&mut self.command)
    }

    /// Says nothing and waits for the other side to close.
    pub(crate) fn listen(mut self) -> Finished {
        Process::start(&mut self.command).finish()
    }

    /// Says nothing and waits until it hears `words`.
    pub(crate) fn hear(mut self, words: &str) -> Process {
        let mut process = Process::start(&mut self.command);
        process.says(words);
        process
    }

    /// Says something, ends its input, and waits for the other side to close.
    pub(crate) fn tell(mut self, words: &str) -> Finished {
        let mut process = Process::start(&mut self.command);
        process.type_in(words);
        process.close_input();
        process.finish()
    }

    /// Sends a line and gives what came back, once `answer` is a part of it.
    pub(crate) fn ask(mut self, question: &str, answer: &str) -> Finished {
        let mut process = Process::start(&mut self.command);
        process.type_in(&format!("{question}\n"));
        process.says(answer);
        process.close_input();
        process.finish()
    }
}
