//! A thread for a Kafka client, whose calls block for as long as the broker keeps them waiting. It takes one question at a
//! time: while a question is not answered no other is put, so that nothing piles up.

use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::BaseConsumer;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::poll::ProbeError;
use crate::core::lag::Progress;
use crate::core::status::ProgressErrorKind;
use crate::kafka::client::{Quiet, Refused};

/// The blocking call ends this much before the deadline, so that its own error comes first.
const MARGIN: Duration = Duration::from_millis(50);
/// How long a thread may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// What the thread does.
pub(super) trait Work: Sized {
    /// What it is made from.
    type Target: Clone + Send + 'static;

    /// Makes the client.
    ///
    /// # Errors
    /// When it cannot be made; the thread ends then, and the next poll tries anew.
    fn start(target: Self::Target) -> Result<Self, ProbeError>;

    /// Answers a question before the deadline.
    ///
    /// # Errors
    /// Why there is no answer.
    fn answer(&mut self, deadline: Instant) -> Answer;

    /// Works on between two questions, for some milliseconds at most: a question waits as long. Returns how long the thread
    /// may sleep if no question comes.
    fn idle(&mut self) -> Duration;
}

pub(super) type Answer = Result<Progress, ProbeError>;

struct Question {
    deadline: Instant,
    answer: oneshot::Sender<Answer>,
}

/// The thread. It ends when the sender is dropped, and then lets go of `ended`.
struct Thread {
    questions: SyncSender<Question>,
    ended: oneshot::Receiver<()>,
}

/// Puts questions to a thread, which it starts when there is none.
pub(super) struct Worker<W: Work> {
    name: String,
    target: W::Target,
    thread: Option<Thread>,
    /// A question whose answer nobody waits for any more, and since when.
    unanswered: Option<(oneshot::Receiver<Answer>, Instant)>,
}

impl<W: Work + 'static> Worker<W> {
    /// A worker without a thread yet.
    pub(super) const fn new(name: String, target: W::Target) -> Self {
        Self { name, target, thread: None, unanswered: None }
    }

    /// Makes sure that there is a thread that can be asked.
    pub(super) fn ready(&mut self) -> Result<(), ProbeError> {
        if let Some((answer, since)) = &mut self.unanswered {
            if matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                let waited = humantime::format_duration(Duration::from_secs(since.elapsed().as_secs()));
                let text = format!("an earlier question to the broker is still not answered after {waited}");
                return Err(ProbeError::new(ProgressErrorKind::Timeout, text));
            }
            self.unanswered = None;
        }
        if let Some(thread) = &mut self.thread
            && matches!(thread.ended.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        {
            return Ok(());
        }
        self.thread = Some(spawn::<W>(&self.name, self.target.clone())?);
        Ok(())
    }

    /// Asks once. `late` is what is said when no answer comes in time.
    pub(super) async fn ask(&mut self, deadline: tokio::time::Instant, late: &str) -> Answer {
        let gone = || ProbeError::new(ProgressErrorKind::Connect, "the kafka client has ended".to_owned());
        let thread = self.thread.as_ref().ok_or_else(gone)?;
        let (sender, receiver) = oneshot::channel();
        let question = Question { deadline: deadline.into_std() - MARGIN, answer: sender };
        thread.questions.try_send(question).map_err(|_| gone())?;
        // Kept here while it is waited for, so that it is known when this answer is dropped.
        let (receiver, _) = self.unanswered.insert((receiver, Instant::now()));
        let Ok(answer) = timeout_at(deadline, receiver).await else {
            return Err(ProbeError::new(ProgressErrorKind::Timeout, late.to_owned()));
        };
        self.unanswered = None;
        answer.unwrap_or_else(|_| Err(gone()))
    }

    /// Ends the thread.
    pub(super) fn close(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let thread = self.thread.take();
        Box::pin(async move {
            if let Some(Thread { questions, ended }) = thread {
                drop(questions);
                // A thread that a broker holds is left behind: the process is about to end.
                let _ = tokio::time::timeout(FAREWELL, ended).await;
            }
        })
    }
}

/// Makes a client.
pub(super) fn make(config: &ClientConfig) -> Result<BaseConsumer<Quiet>, ProbeError> {
    config.create_with_context(Quiet::default()).map_err(|error| {
        let text = format!("cannot make a kafka client: {}", Refused::from(error));
        ProbeError::new(ProgressErrorKind::Connect, text)
    })
}

fn spawn<W: Work + 'static>(name: &str, target: W::Target) -> Result<Thread, ProbeError> {
    let (questions, asked) = sync_channel(1);
    let (ending, ended) = oneshot::channel::<()>();
    let thread = move || {
        let _ending = ending;
        serve::<W>(target, &asked);
    };
    let spawned = std::thread::Builder::new().name(name.replace('\0', "")).spawn(thread);
    spawned.map_err(|error| {
        ProbeError::new(
            ProgressErrorKind::Connect,
            format!("cannot start a thread for the kafka client: {error}"),
        )
    })?;
    Ok(Thread { questions, ended })
}

/// The thread's life.
fn serve<W: Work>(target: W::Target, questions: &Receiver<Question>) {
    let mut work = match W::start(target) {
        Ok(work) => work,
        Err(error) => {
            // Told to whoever asks, and then the thread ends: the next poll tries anew.
            if let Ok(question) = questions.recv() {
                let _ = question.answer.send(Err(error));
            }
            return;
        }
    };
    let mut pause = Duration::ZERO;
    loop {
        match questions.recv_timeout(pause) {
            Ok(question) => {
                let _ = question.answer.send(work.answer(question.deadline));
            }
            Err(RecvTimeoutError::Timeout) => pause = work.idle(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
