//! Device time: a device is in use while at least one of its slots is busy, and counts once; each
//! device of a group counts.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::study::device::{Device, DeviceGroup};
use crate::study::time::Timestamp;

/// Measures device time. Each start and end of an attempt on a device accounts for the time since
/// the last such event, so that the journal alone gives the exact total at any time.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceMeter {
    used: BTreeMap<Device, Use>,
}

#[derive(Clone, Debug)]
struct Use {
    /// Running attempts.
    attempts: usize,
    /// Up to when its time is accounted for.
    accounted: Timestamp,
}

impl DeviceMeter {
    /// An attempt starts: returns the microseconds to account for, of all its devices.
    pub fn start(&mut self, devices: &DeviceGroup, at: Timestamp) -> i64 {
        devices.distinct().into_iter().map(|device| self.start_on(device, at)).sum()
    }

    /// An attempt has ended: returns the microseconds to account for, of all its devices.
    pub fn end(&mut self, devices: &DeviceGroup, at: Timestamp) -> i64 {
        devices.distinct().into_iter().map(|device| self.end_on(device, at)).sum()
    }

    fn start_on(&mut self, device: &Device, at: Timestamp) -> i64 {
        let usage = self.used.entry(device.clone()).or_insert(Use { attempts: 0, accounted: at });
        let passed = usage.tell(at);
        usage.attempts += 1;
        passed
    }

    fn end_on(&mut self, device: &Device, at: Timestamp) -> i64 {
        let Some(usage) = self.used.get_mut(device) else { return 0 };
        let passed = usage.tell(at);
        usage.attempts = usage.attempts.saturating_sub(1);
        passed
    }

    /// Time of all devices that is not accounted for yet.
    pub fn unaccounted(&self, at: Timestamp) -> Duration {
        self.used
            .values()
            .filter(|usage| usage.attempts > 0)
            .fold(Duration::ZERO, |sum, usage| sum.saturating_add(at.since(usage.accounted)))
    }

    /// Number of devices in use.
    pub fn devices(&self) -> usize {
        self.used.values().filter(|usage| usage.attempts > 0).count()
    }
}

impl Use {
    fn tell(&mut self, at: Timestamp) -> i64 {
        let passed = if self.attempts > 0 { at.since(self.accounted) } else { Duration::ZERO };
        self.accounted = at;
        i64::try_from(passed.as_micros()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_counts_once_however_many_of_its_slots_are_busy() {
        let mut meter = DeviceMeter::default();
        let [one, other] = [0, 1].map(|index| DeviceGroup::from(Device::Sim(index)));
        let accounted: Vec<i64> = vec![
            meter.start(&one, Timestamp(0)),
            meter.start(&one, Timestamp(10)),
            meter.start(&other, Timestamp(20)),
            meter.end(&one, Timestamp(50)),
            meter.end(&other, Timestamp(60)),
        ];
        assert_eq!(accounted, [0, 10, 0, 40, 40]);
        assert_eq!(
            (meter.unaccounted(Timestamp(75)), meter.devices()),
            (Duration::from_micros(25), 1)
        );
        assert_eq!(meter.end(&one, Timestamp(80)), 30);
        // 0 to 80 of the first, 20 to 60 of the second.
        assert_eq!(
            (accounted.iter().sum::<i64>() + 30, meter.unaccounted(Timestamp(99)).as_micros()),
            (120, 0)
        );
        // Idle time does not count.
        assert_eq!((meter.start(&one, Timestamp(100)), meter.end(&one, Timestamp(107))), (0, 7));
    }

    #[test]
    fn each_device_of_a_group_counts_and_the_cpu_once() {
        let mut meter = DeviceMeter::default();
        let [group, other, cpu] =
            ["sim:0+sim:1", "sim:1+sim:2", "cpu+cpu"].map(|group| group.parse().unwrap());
        meter.start(&group, Timestamp(0));
        assert_eq!((meter.devices(), meter.unaccounted(Timestamp(5)).as_micros()), (2, 10));
        assert_eq!(meter.start(&other, Timestamp(10)), 10, "of the device that both use");
        assert_eq!(meter.end(&group, Timestamp(30)), 30 + 20);
        assert_eq!(meter.end(&other, Timestamp(40)), 10 + 30);
        meter.start(&cpu, Timestamp(50));
        assert_eq!((meter.devices(), meter.end(&cpu, Timestamp(57))), (1, 7));
    }
}
