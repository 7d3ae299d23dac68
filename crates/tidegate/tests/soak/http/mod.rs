//! Requests over HTTP/1.1 and HTTP/2 and WebSockets with checked bodies while manifests change all the time: none may
//! fail, no byte may be wrong, tunnels stay, and memory must not grow.

mod changes;
mod load;
mod traffic;

use std::time::Duration;

use self::changes::Changes;
use self::load::Load;
use crate::course::{Course, Size};
use crate::loopback::Tidegate;
use crate::{alone, is_full};

const SMALL: Size = Size { load: 8, changes: 40, pause: Duration::from_millis(100) };
const FULL: Size = Size { load: 100, changes: 500, pause: Duration::from_millis(150) };

#[test]
fn requests_outlive_changes() {
    let _alone = alone();
    let size = if is_full() { FULL } else { SMALL };
    let manifests = Changes::new();
    let files = manifests.files();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let tidegate = Tidegate::start(&files, &["--drain=1s"]);

    let load = Load::start(&tidegate, &manifests.authority, size.load);
    let make = |number: usize, tidegate: &Tidegate| manifests.make(number, tidegate);
    let course = Course::run(&tidegate, &size, make, || load.assert_well());
    let carried = load.stop();
    tidegate.wait_active(0);
    course.judge(&format!("{} clients of each kind", size.load), carried);
}
