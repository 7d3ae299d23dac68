//! Follows files, sockets and signals, and brings manifests, data plane and statuses in line with each other.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tidegate_api::{ObjectKey, Severity};
use tidegate_proxy::{KeptCertificate, SocketState};
use tidegate_translate::Change;
use tokio::sync::watch as latest;

use crate::conditions::{self, Health};
use crate::meaning::Meaning;
use crate::output::Error;
use crate::run::certificates::Certificates;
use crate::run::kept;
use crate::run::live::Live;
use crate::run::log::Log;
use crate::run::programmed;
use crate::run::signals::Signals;
use crate::run::sockets;
use crate::run::underway;
use crate::run::watch::{Events, Watcher};
use crate::source::{Manifests, Unwatched, Update, Watch};
use crate::words;

pub(crate) struct Control {
    live: Arc<Live>,
    /// `None` where files are read once.
    watcher: Option<Watcher>,
    log: Log,
    signals: Signals,
    socket_changes: latest::Receiver<u64>,
    sockets: Vec<SocketState>,
    kept: Arc<[KeptCertificate]>,
    /// `None` where nobody makes certificates here.
    certificates: Option<Certificates>,
    /// Until when news of certificates may wait for more: where there are many, each takes a while.
    certificates_rest: Instant,
    /// When to try again what could not be read because the machine had nothing left to read with.
    unread: Option<Instant>,
}

/// How long to wait for sockets before saying what is served.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before that is read again.
const RETRY: Duration = Duration::from_secs(1);

enum Event {
    Files(io::Result<Events>),
    Unread,
    Sockets,
    Certificates,
    Hangup,
    End,
}

impl Control {
    pub(crate) fn new(
        live: Arc<Live>,
        watcher: Option<Watcher>,
        certificates: Option<Certificates>,
        log: Log,
        signals: Signals,
    ) -> Self {
        let socket_changes = live.proxy.changes();
        let sockets = Vec::new();
        let certificates_rest = Instant::now();
        Self {
            live,
            watcher,
            log,
            signals,
            socket_changes,
            sockets,
            kept: Arc::default(),
            certificates,
            certificates_rest,
            unread: None,
        }
    }

    /// Has the data plane serve the manifests as they were read, and waits until it has tried all sockets.
    pub(crate) async fn start(&mut self) {
        self.first_certificates().await;
        {
            let meaning = self.live.meaning();
            let plan = &meaning.translation().plan;
            let fragments = plan.fragments.keys().cloned().collect();
            let endpoints = plan.endpoints.keys().cloned().collect();
            self.live.proxy.apply(plan, &fragments, &endpoints);
        }
        let deadline = Instant::now() + PATIENCE;
        while !self.all_tried() {
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(tokio::time::timeout(left, self.socket_changes.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
        self.socket_changes.mark_unchanged();
        self.sockets = self.live.proxy.sockets();
        let mut meaning = self.live.meaning();
        let keys = programmed::all(&meaning);
        programmed::update(&mut meaning, &self.sockets, &keys);
        let keys: Vec<ObjectKey> = meaning.statuses().map(|(key, _)| key.clone()).collect();
        let now = words::now();
        for key in keys {
            meaning.note_time(&key, now);
        }
        self.live.problems.store(meaning.manifests.invalid().count(), Relaxed);
        // A person has seen them already, with the lines they are about.
        for (what, place) in meaning.manifests.invalid().filter(|_| self.log.is_for_machines()) {
            self.log.error("invalid", format_args!("{place}: {what} is not used"));
        }
    }

    /// Those of a store are there before anybody is served, and so are those that can be made at once.
    async fn first_certificates(&mut self) {
        let Some(certificates) = &mut self.certificates else { return };
        let provide = |certificates: &mut Certificates| {
            let mut meaning = self.live.meaning();
            let picture = certificates.picture();
            let secrets = certificates.secrets(&picture, meaning.translation());
            let changes = meaning.manifests.provide(secrets);
            meaning.issuance = Some(picture);
            meaning.take(changes);
            certificates.want(meaning.demand());
        };
        provide(certificates);
        let made = async {
            while !certificates.is_settled() {
                certificates.changed().await;
            }
        };
        // Whoever takes longer is waited for while the rest is served.
        let _ = tokio::time::timeout(PATIENCE, made).await;
        provide(certificates);
    }

    fn all_tried(&self) -> bool {
        sockets::all_tried(&self.live.meaning().translation().plan, &self.live.proxy.sockets())
    }

    /// Lives until a signal ends it; its number comes back where that was before all connections had ended.
    pub(crate) async fn live(&mut self) -> Option<u8> {
        loop {
            match self.event().await {
                Event::Files(Ok(events)) => self.files_changed(&events),
                Event::Files(Err(error)) => {
                    self.log.error(
                        "watch-failed",
                        format_args!("files are no longer watched: {error}; SIGHUP reads them"),
                    );
                    self.watcher = None;
                }
                Event::Unread => {
                    self.unread = None;
                    self.read(Manifests::read_again);
                }
                Event::Sockets => self.sockets_changed(),
                Event::Certificates => self.certificates_changed(),
                Event::Hangup => {
                    self.log.info("read-again", "SIGHUP: all files are read again");
                    self.live.proxy.reopen_log();
                    self.read(Manifests::read_again);
                }
                Event::End => return self.drain().await,
            }
        }
    }

    async fn event(&mut self) -> Event {
        let Self { watcher, signals, socket_changes, certificates, certificates_rest, unread, .. } = self;
        let certificates = async {
            match certificates {
                Some(certificates) => {
                    tokio::time::sleep_until((*certificates_rest).into()).await;
                    certificates.changed().await;
                }
                None => std::future::pending().await,
            }
        };
        let files = async {
            match watcher {
                Some(watcher) => watcher.next().await,
                None => std::future::pending().await,
            }
        };
        let unread = async {
            match unread {
                Some(at) => tokio::time::sleep_until((*at).into()).await,
                None => std::future::pending().await,
            }
        };
        let Signals { hangup, interrupt, terminate } = signals;
        tokio::select! {
            events = files => Event::Files(events),
            () = unread => Event::Unread,
            () = certificates => Event::Certificates,
            Ok(()) = socket_changes.changed() => Event::Sockets,
            _ = hangup.recv() => Event::Hangup,
            _ = interrupt.recv() => Event::End,
            _ = terminate.recv() => Event::End,
        }
    }

    async fn drain(&mut self) -> Option<u8> {
        self.live.progress.drain();
        let deadline = self.live.proxy.bounds().drain_time;
        let time = humantime::format_duration(deadline);
        let there = underway(&self.live.proxy);
        self.log.info("draining", format_args!("{there} have {time} to end"));
        let live = Arc::clone(&self.live);
        tokio::select! {
            () = live.proxy.drain(deadline) => {
                self.log.info("ended", format_args!("{} were cut off", underway(&live.proxy)));
                None
            }
            number = self.signals.end() => {
                let there = underway(&live.proxy);
                self.log.warning("ended", format_args!("ended at once, {there} were cut off"));
                Some(number)
            }
        }
    }

    fn files_changed(&mut self, events: &Events) {
        if events.lost {
            self.log
                .warning("watch-overflow", "more files changed than the kernel remembers: all are looked at");
            self.read(Manifests::look_again);
        }
        self.read(|manifests, watch| manifests.changed(&events.entries, watch));
    }

    /// From files to what the data plane serves.
    fn read(&mut self, read: impl FnOnce(&mut Manifests, &mut dyn Watch) -> Update) {
        let start = Instant::now();
        let live = Arc::clone(&self.live);
        let mut meaning = live.meaning();
        let update = match &mut self.watcher {
            Some(watcher) => read(&mut meaning.manifests, watcher),
            None => read(&mut meaning.manifests, &mut Unwatched),
        };
        if !update.changes.is_empty() {
            self.apply(&mut meaning, update.changes, start);
        }
        for failure in &update.failures {
            self.log.error("unreadable", failure);
            if is_passing(failure) {
                self.unread.get_or_insert_with(|| Instant::now() + RETRY);
            }
        }
        for id in &update.files {
            self.complain(&meaning, id);
        }
        if !update.files.is_empty() {
            live.problems.store(meaning.manifests.invalid().count(), Relaxed);
        }
        drop(meaning);
        for (folder, error) in self.watcher.iter_mut().flat_map(Watcher::failures) {
            self.log.error("unwatched", format_args!("{} cannot be watched: {error}", folder.display()));
        }
    }

    fn apply(&mut self, meaning: &mut Meaning, changes: Vec<Change>, start: Instant) {
        let live = Arc::clone(&self.live);
        let described = describe(&changes);
        let delta = meaning.take(changes);
        live.proxy.apply(&meaning.translation().plan, &delta.fragments, &delta.endpoints);
        let took = start.elapsed();
        live.changes.fetch_add(1, Relaxed);
        self.log.info("applied", format_args!("{described} in {:.1} ms", took.as_secs_f64() * 1000.0));
        self.tell_kept();
        self.sockets = live.proxy.sockets();
        let changed = programmed::update(meaning, &self.sockets, &delta.statuses);
        self.tell(meaning, delta.statuses.into_iter().chain(changed).collect());
        if let Some(certificates) = &self.certificates {
            certificates.want(meaning.demand());
        }
    }

    fn certificates_changed(&mut self) {
        let start = Instant::now();
        let Some(certificates) = &mut self.certificates else { return };
        let picture = certificates.picture();
        let live = Arc::clone(&self.live);
        let mut meaning = live.meaning();
        let secrets = certificates.secrets(&picture, meaning.translation());
        let before = meaning.issuance.replace(Arc::clone(&picture));
        let failure = picture
            .last_failure
            .as_ref()
            .filter(|_| before.is_none_or(|before| before.failures != picture.failures));
        if let Some(failure) = failure {
            self.log.warning("certificate", failure);
        }
        let changes = meaning.manifests.provide(secrets);
        if !changes.is_empty() {
            self.apply(&mut meaning, changes, start);
        }
        let keys = programmed::all(&meaning);
        let changed = programmed::update(&mut meaning, &self.sockets, &keys);
        self.tell(&mut meaning, changed);
        self.certificates_rest = Instant::now() + start.elapsed() * 4;
    }

    fn sockets_changed(&mut self) {
        self.tell_kept();
        let sockets = self.live.proxy.sockets();
        if sockets == self.sockets {
            return;
        }
        let live = Arc::clone(&self.live);
        let mut meaning = live.meaning();
        self.sockets = sockets;
        let keys = programmed::all(&meaning);
        let changed = programmed::update(&mut meaning, &self.sockets, &keys);
        self.tell(&mut meaning, changed);
    }

    fn tell_kept(&mut self) {
        let before = std::mem::replace(&mut self.kept, self.live.proxy.kept());
        kept::tell(self.log, &before, &self.kept);
    }

    /// Notes when statuses changed, and says which objects are now worse off, or well again.
    fn tell(&self, meaning: &mut Meaning, changed: BTreeSet<ObjectKey>) {
        let now = words::now();
        for key in changed {
            let before = meaning.note_time(&key, now);
            let before = before.map(|status| bad_messages(&status)).unwrap_or_default();
            let after = meaning.status(&key).map(bad_messages).unwrap_or_default();
            if before == after {
                continue;
            }
            if after.is_empty() {
                self.log.info("well", format_args!("{key} is well again"));
            }
            for message in after.iter().filter(|message| !before.contains(message)) {
                self.log.warning("refused", format_args!("{key}: {message}"));
            }
        }
    }

    fn complain(&self, meaning: &Meaning, id: &crate::source::FileId) {
        let remarks = meaning.manifests.remarks(id);
        for remark in remarks.iter().filter(|remark| remark.problem.severity == Severity::Error) {
            let kept = match remark.kept {
                0 => "",
                1 => "; its last good state is served",
                _ => "; the last good state of its objects is served",
            };
            self.log.error("invalid", format_args!("{}: {}{kept}", remark.place, remark.problem));
        }
        if let Some(complaint) = meaning.manifests.complaint(id) {
            self.log.detail(&complaint);
        }
    }
}

/// Whether it says nothing about the file, only that there was no descriptor or memory to read it.
fn is_passing(failure: &Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(|errno| Some(errno.raw_os_error()));
    matches!(failure, Error::Read { error, .. } if exhausted.contains(&error.raw_os_error()))
}

fn bad_messages(status: &tidegate_api::status::Status) -> Vec<String> {
    let bad = conditions::sets(status)
        .into_iter()
        .flatten()
        .filter(|condition| conditions::health(condition) == Health::Bad);
    let mut messages: Vec<String> = bad
        .map(|condition| {
            format!(
                "{:?}={:?} {:?}: {}",
                condition.kind, condition.status, condition.reason, condition.message
            )
        })
        .collect();
    messages.sort();
    messages.dedup();
    messages
}

/// `HTTPRoute default/a, Service default/b and 3 more`.
fn describe(changes: &[Change]) -> String {
    let words: Vec<String> = changes
        .iter()
        .map(|change| match change {
            Change::Upsert(object) => object.key().to_string(),
            Change::Remove(key) => format!("{key} (removed)"),
        })
        .collect();
    words::some_of(&words, 3)
}
