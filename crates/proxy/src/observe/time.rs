//! Points in time as RFC 3339 writes them, in UTC with milliseconds, for log lines and JSON.

use std::time::{SystemTime, UNIX_EPOCH};

pub(super) const LENGTH: usize = 24;

/// `2026-11-16T03:41:15.042Z`. Times before 1970 are written as 1970, those after 9999 as 9999.
pub(super) fn rfc3339(time: SystemTime) -> [u8; LENGTH] {
    const LAST: u64 = 253_402_300_799;
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs().min(LAST);
    let (year, month, day) = date(seconds / 86_400);
    let of_day = seconds % 86_400;
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |at: usize, digits: usize, mut number: u64| {
        for place in text[at..at + digits].iter_mut().rev() {
            *place = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, of_day / 3600);
    put(14, 2, of_day / 60 % 60);
    put(17, 2, of_day % 60);
    put(20, 3, u64::from(since.subsec_millis()));
    text
}

/// Howard Hinnant's `civil_from_days`, with years that begin in March.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// For serde: the same as text.
pub(super) fn serialize<S: serde::Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    let text = rfc3339(*time);
    serializer.serialize_str(str::from_utf8(&text).map_err(serde::ser::Error::custom)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times() {
        for (milliseconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_001, "2000-02-29T00:00:00.001Z"),
            (1_794_800_475_042, "2026-11-16T03:41:15.042Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_000, "9999-12-31T23:59:59.000Z"),
            (253_402_300_800_000, "9999-12-31T23:59:59.000Z"),
        ] {
            let text = rfc3339(UNIX_EPOCH + Duration::from_millis(milliseconds));
            assert_eq!(str::from_utf8(&text).unwrap(), expected);
        }
        assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_secs(1))[..10], *b"1970-01-01");
    }
}
