//! Keys of the devices screen: a device is paused or used again, and another number of trials runs
//! on it.

use super::prompt::Purpose;
use super::{Command, TuiState};
use crate::study::device::Device;
use crate::study::request::Request;

impl TuiState {
    /// The devices that the study runs on, as the screen shows them.
    fn devices(&self) -> &[Device] {
        self.seen.picture.as_ref().map_or(&[], |picture| &picture.devices)
    }

    pub(super) fn pause_device(&mut self) -> Command {
        match self.devices() {
            [] => self.note("the study runs on no device now"),
            [only] => self.turn_device(only.clone()),
            [first, ..] => self.prompt(Purpose::Device, None, &first.to_string()),
        }
    }

    pub(super) fn ask_for_slots(&mut self) -> Command {
        match self.devices().first().map(|device| format!("{device} ")) {
            None => self.note("the study runs on no device now"),
            Some(first) => self.prompt(Purpose::Slots, None, &first),
        }
    }

    /// Pauses a device that is used, and uses one that is paused.
    pub(super) fn turn_device(&mut self, device: Device) -> Command {
        if self.summary().paused_devices.contains(&device) {
            let notice = format!("asked for {device} to be used again");
            return self.ask(Request::ResumeDevice { device, slots: None }, notice);
        }
        let notice = format!(
            "asked for {device} to be paused: its trials save, exit and continue elsewhere; p \
             again uses it"
        );
        self.ask(Request::PauseDevice { device }, notice)
    }

    /// The device that is meant, one of the screen's.
    pub(super) fn device_of(&self, text: &str) -> Result<Device, String> {
        let device: Device =
            text.parse().map_err(|error: crate::study::device::UnknownDevice| error.to_string())?;
        if self.devices().contains(&device) {
            return Ok(device);
        }
        let names: Vec<String> = self.devices().iter().map(ToString::to_string).collect();
        Err(format!("the study does not run on {device}: it runs on {}", names.join(", ")))
    }

    /// A device, and how many trials at a time.
    pub(super) fn slots_of(&self, text: &str) -> Result<(Device, u32), String> {
        let (device, slots) = text
            .rsplit_once(char::is_whitespace)
            .ok_or("write how many trials at a time after the device")?;
        let slots = slots
            .parse()
            .ok()
            .filter(|slots| (1..=1024).contains(slots))
            .ok_or_else(|| format!("`{slots}` is not a number from 1 to 1024"))?;
        Ok((self.device_of(device.trim())?, slots))
    }
}
