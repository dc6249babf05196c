//! What changes the study or leaves it: requests to the runner, each with its word of confirmation,
//! and marks.

use ratatui::crossterm::event::KeyCode;

use super::prompt::Purpose;
use super::{Command, Confirmation, Overlay, RunPhase, TuiState};
use crate::app::control::{NotOffered, StudyControl, study_control, trial_control};
use crate::study::control::TrialControl;
use crate::study::params::Params;
use crate::study::request::{Request, Retried};
use crate::study::trial::{Trial, TrialNumber, TrialState};
use crate::tui::form::Form;
use crate::tui::keys::{KeyLine, Screen};
use crate::tui::list::Movement;
use crate::tui::{Detach, TuiExit, TuiMode, clipboard};

/// Said once a configuration was asked for.
const ENQUEUED: &str = "asked for the configuration to be run next";

impl TuiState {
    pub(super) fn interrupt(&mut self) -> Command {
        match (self.mode, &self.phase) {
            (TuiMode::Watching, _) | (_, RunPhase::Over(_)) => Command::Leave(TuiExit::Left),
            (TuiMode::Embedded, RunPhase::Open) => self.stop(Confirmation::StopAndLeave),
            (TuiMode::Embedded, RunPhase::Stopping) => Command::Leave(TuiExit::KillNow),
        }
    }

    pub(super) fn quit(&mut self) -> Command {
        match (self.mode, &self.phase) {
            (TuiMode::Watching, _) | (_, RunPhase::Over(_)) => Command::Leave(TuiExit::Left),
            (TuiMode::Embedded, RunPhase::Stopping) => {
                self.leave_when_over = true;
                self.note(
                    "leaving as soon as the running trials have saved a checkpoint; Ctrl-C \
                    kills them",
                )
            }
            (TuiMode::Embedded, RunPhase::Open) => self.question(Confirmation::StopAndLeave),
        }
    }

    fn question(&mut self, question: Confirmation) -> Command {
        self.overlay = Some(Overlay::Confirmation(question));
        Command::Redraw
    }

    pub(super) fn ask_to_stop(&mut self) -> Command {
        match self.phase {
            _ if self.is_over() => self.note("the study is over"),
            _ if self.mode == TuiMode::Watching
                && self.study_control(StudyControl::Stop).is_err() =>
            {
                self.note("the study is not running")
            }
            RunPhase::Stopping => self.note("the study is stopping already"),
            RunPhase::Open | RunPhase::Over(_) => self.question(Confirmation::Stop),
        }
    }

    fn study_control(&self, control: StudyControl) -> Result<(), NotOffered> {
        study_control(self.summary(), self.seen.state, control)
    }

    fn trial_control(&self, trial: &Trial, control: TrialControl) -> Result<(), NotOffered> {
        trial_control(self.summary(), trial, control)
    }

    /// Whether the run of this process is over, or the study that is watched.
    fn is_over(&self) -> bool {
        let is_watched_to_its_end = self.mode == TuiMode::Watching
            && self.study_control(StudyControl::Stop) == Err(NotOffered::Over);
        matches!(self.phase, RunPhase::Over(_)) || is_watched_to_its_end
    }

    /// Whether the line's action would only be answered that the study is over.
    pub fn is_in_vain(&self, line: &KeyLine) -> bool {
        line.stops() && self.is_over()
    }

    pub(super) fn ask_to_kill(&mut self) -> Command {
        let offer = self.subject_trial().map(|trial| self.trial_control(trial, TrialControl::Kill));
        match (&self.phase, self.subject(), offer) {
            (RunPhase::Over(_), ..) => self.note("the study is over: no trial is running"),
            (_, None, _) => self.note("there is no trial to kill"),
            (_, Some(trial), Some(Err(NotOffered::State(state)))) => {
                self.note(format!("{} is {} already", self.title_of(trial), state.as_str()))
            }
            (_, Some(trial), _) => self.question(Confirmation::Kill(trial.number)),
        }
    }

    pub(super) fn answer(&mut self, question: Confirmation, key: KeyCode) -> Command {
        match (key, question) {
            (KeyCode::Char('y' | 'Y'), Confirmation::Stop | Confirmation::StopAndLeave) => {
                self.stop(question)
            }
            (KeyCode::Char('d' | 'D'), Confirmation::StopAndLeave)
                if self.detach == Detach::Possible =>
            {
                Command::Leave(TuiExit::Detached)
            }
            (KeyCode::Char('y' | 'Y'), Confirmation::Kill(trial)) => {
                self.ask(Request::Kill { trial }, format!("asked for trial {trial} to be killed"))
            }
            (KeyCode::Char('y' | 'Y'), Confirmation::RetryFailed(_)) => self.ask(
                Request::Retry { trials: Retried::AllFailed },
                "asked for the failed trials to be tried again",
            ),
            (KeyCode::Char('y' | 'Y'), Confirmation::RunOnceMore(_)) => {
                self.notice = Some(ENQUEUED.to_owned());
                self.repeated.take().map_or(Command::Redraw, Command::Repeat)
            }
            (KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc | KeyCode::Enter, _) => Command::Redraw,
            _ => {
                // Neither yes nor no: it is asked still.
                self.overlay = Some(Overlay::Confirmation(question));
                Command::Ignore
            }
        }
    }

    fn stop(&mut self, question: Confirmation) -> Command {
        self.overlay = None;
        self.phase = RunPhase::Stopping;
        self.leave_when_over |= question == Confirmation::StopAndLeave;
        self.ask(Request::Stop, "stopping: running trials save a checkpoint and exit")
    }

    pub(super) fn pause_trial(&mut self) -> Command {
        let Some(subject) = self.subject_trial() else {
            return self.note("there is no trial to pause");
        };
        let trial = subject.number;
        match self.trial_control(subject, TrialControl::Pause) {
            Ok(()) => {
                let notice = format!(
                    "asked for trial {trial} to be paused: it saves a checkpoint and exits; p \
                     again lets it continue"
                );
                self.ask(Request::PauseTrial { trial }, notice)
            }
            Err(NotOffered::State(state)) => {
                self.note(format!("trial {trial} is already {}", state.as_str()))
            }
            Err(_) => {
                let notice = format!("asked for trial {trial} to continue");
                self.ask(Request::ResumeTrial { trial }, notice)
            }
        }
    }

    pub(super) fn pause_study(&mut self) -> Command {
        if matches!(self.phase, RunPhase::Over(_)) {
            return self.note("the study is over");
        }
        if self.study_control(StudyControl::Resume).is_ok() {
            return self.ask(Request::ResumeStudy, "asked for the study to continue");
        }
        self.ask(
            Request::PauseStudy,
            "asked for the study to be paused: running trials save a checkpoint and exit; P again \
            lets it continue",
        )
    }

    pub(super) fn retry(&mut self) -> Command {
        match self.subject_trial() {
            Some(trial) if self.trial_control(trial, TrialControl::Retry).is_ok() => {
                let trial = trial.number;
                let notice = format!("asked for trial {trial} to be tried again");
                self.ask(Request::Retry { trials: Retried::One(trial) }, notice)
            }
            _ => match self.study_control(StudyControl::RetryFailed) {
                Ok(()) => self.question(Confirmation::RetryFailed(self.summary().counts.failed)),
                Err(_) => self.note("no trial has failed"),
            },
        }
    }

    pub(super) fn continue_trial(&mut self) -> Command {
        let Some(subject) = self.subject_trial() else {
            return self.note("there is no trial to continue");
        };
        let (trial, state) = (subject.number, subject.state);
        if self.trial_control(subject, TrialControl::Continue).is_ok() {
            return self.prompt(Purpose::Continue, Some(trial), "");
        }
        match state {
            TrialState::Failed => self.note(format!("trial {trial} failed: R tries it again")),
            TrialState::Paused => self.note(format!("trial {trial} is paused: p lets it continue")),
            TrialState::Queued
            | TrialState::Running
            | TrialState::Complete
            | TrialState::Pruned => {
                self.note(format!("trial {trial} has not ended, it is {}", state.as_str()))
            }
        }
    }

    pub(super) fn open_form(&mut self) -> Command {
        let Some(trial) = self.subject_trial() else {
            return self.note("there is no trial to copy");
        };
        self.overlay = Some(Overlay::Form(Form::new(self.spec(), trial)));
        Command::Redraw
    }

    pub(super) fn enqueue(&mut self, params: Params) -> Command {
        self.ask(Request::Enqueue { params }, ENQUEUED)
    }

    /// Asks whether a configuration that `trial` has is to be run once more.
    pub fn ask_to_repeat(&mut self, params: Params, trial: TrialNumber) {
        self.repeated = Some(params);
        self.overlay = Some(Overlay::Confirmation(Confirmation::RunOnceMore(trial)));
        self.notice = None;
    }

    pub(super) fn copy(&mut self) -> Command {
        let Some(trial) = self.subject_trial() else {
            return self.note("there is no trial to copy");
        };
        let text = clipboard::configuration(self.spec(), trial);
        self.notice = Some(format!(
            "the configuration of trial {} is in the clipboard, if the terminal allows it (OSC 52)",
            trial.number
        ));
        Command::Copy(text)
    }

    pub(super) fn mark(&mut self) -> Command {
        let Some(trial) = self.subject() else {
            return Command::Ignore;
        };
        match self.marked.iter().position(|marked| *marked == trial) {
            Some(at) => drop(self.marked.remove(at)),
            None => self.marked.push(trial),
        }
        if self.screen == Screen::Trials {
            self.list.go(Movement::By(1));
        }
        Command::Redraw
    }

    pub(super) fn select_best(&mut self) -> Command {
        let Some(best) = self.best() else {
            return self.note("no trial is complete yet");
        };
        // Where it is not among the rows at hand, its own screen is at hand always.
        if self.screen == Screen::Trial || !self.list.select(best) {
            self.open(best);
        }
        Command::Redraw
    }
}
