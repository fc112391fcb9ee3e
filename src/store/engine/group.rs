//! Groups of jobs written together: one message or a hundred cost the same flush of the disk.
//!
//! A caller hands in a job and waits for its answer. A writer takes all waiting jobs, within limits
//! of rows and bytes, and writes them in one transaction; meanwhile the next ones gather. No job
//! with a waiting caller is delayed to make a group larger: alone, a job is a group of one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::Instant;

use super::error::StoreError;
use crate::domain::repeats::{LogCause, Repeats};
use crate::rules::Grouping;

/// Groups queued behind the current write; beyond this, callers block.
const WAITING_GROUPS: usize = 4;

/// Work that can be done for many jobs in one transaction: all of them or none.
pub trait GroupedWork: Send + Sync + 'static {
    type Job: Send + Sync + 'static;
    type Answer: Send + 'static;

    /// Returns the rows of a job, and its bytes.
    fn size(job: &Self::Job) -> (usize, usize);

    /// Returns the organization whose rows a job writes; 0 if the rows belong to none.
    fn organization(_job: &Self::Job) -> i64 {
        0
    }

    /// Writes the jobs, and returns an answer for each, in their order.
    fn write(
        &self,
        jobs: &[Self::Job],
    ) -> impl Future<Output = Result<Vec<Self::Answer>, StoreError>> + Send;
}

/// Takes jobs in. Its writers end when the last clone is dropped.
pub struct Group<T: GroupedWork> {
    queue: mpsc::Sender<Waiting<T>>,
    patience: Duration,
}

/// How long the first job of a group waits for others.
pub struct Linger {
    pub pause: Duration,
    /// Ends the pause early.
    pub hurry: Arc<Notify>,
}

struct Waiting<T: GroupedWork> {
    job: T::Job,
    answer: oneshot::Sender<Result<T::Answer, StoreError>>,
}

impl<T: GroupedWork> Group<T> {
    /// Starts a group with so many writers.
    pub fn start(work: T, rules: Grouping, writers: usize) -> Self {
        Self::lingering(work, rules, writers, None)
    }

    /// Starts a group whose jobs wait for others if `linger` says so: callers need no answer soon.
    pub fn lingering(work: T, rules: Grouping, writers: usize, linger: Option<Linger>) -> Self {
        let (queue, waiting) = mpsc::channel(rules.max_messages.saturating_mul(WAITING_GROUPS));
        let line = Line { behind: VecDeque::new(), queue: waiting, linger };
        let (line, work) = (Arc::new(Mutex::new(line)), Arc::new(work));
        for _ in 0..writers {
            tokio::spawn(serve(Arc::clone(&work), Arc::clone(&line), rules));
        }
        Self { queue, patience: rules.patience() }
    }

    /// Hands in the job and waits for its answer. After an error nothing of the job was written. It
    /// may have been, or may be later, only after `TooSlow` or `Ended`, after a connection lost
    /// during the commit, or if this future is dropped.
    pub(in crate::store) async fn ask(&self, job: T::Job) -> Result<T::Answer, StoreError> {
        let (answer, answered) = oneshot::channel();
        let asking = async {
            // A writer that is gone ended with the runtime.
            let handed_in = self.queue.send(Waiting { job, answer }).await;
            handed_in.map_err(|_| StoreError::Ended)?;
            answered.await.unwrap_or(Err(StoreError::Ended))
        };
        tokio::time::timeout(self.patience, asking).await.unwrap_or(Err(StoreError::TooSlow))
    }
}

/// Jobs waiting to be written, the oldest first.
struct Line<T: GroupedWork> {
    /// Taken out of the queue and left for a later group; older than all jobs in the queue.
    behind: VecDeque<Waiting<T>>,
    queue: mpsc::Receiver<Waiting<T>>,
    linger: Option<Linger>,
}

async fn serve<T: GroupedWork>(work: Arc<T>, line: Arc<Mutex<Line<T>>>, rules: Grouping) {
    let repeats = Repeats::default();
    loop {
        // An idle writer holds this lock while it waits for the queue; `behind` is empty then.
        let Some(group) = line.lock().await.next(rules).await else { return };
        // A task of its own: if it panics, the next groups are still written.
        let settling = tokio::spawn(settle(Arc::clone(&work), group, rules.patience()));
        if let Err(error) = settling.await
            && let Some(left_out) = repeats.due(LogCause::Group)
        {
            tracing::error!(%error, left_out, "cannot write a group of jobs");
        }
    }
}

impl<T: GroupedWork> Line<T> {
    /// Waits for the next group. None once no caller can hand in a job any more.
    async fn next(&mut self, rules: Grouping) -> Option<Vec<Waiting<T>>> {
        if self.behind.is_empty() {
            self.behind.push_back(self.queue.recv().await?);
            if let Some(Linger { pause, hurry }) = &self.linger {
                // Hurried or not, the group is written now.
                let _pause = tokio::time::timeout(*pause, hurry.notified()).await;
            }
        }
        Some(self.gather(rules))
    }

    /// Takes waiting jobs until a limit is reached. With `one_organization`, takes those of the
    /// oldest job's organization only, so that each has its turn. Drops jobs whose caller has
    /// stopped waiting, and leaves a job that exceeds a limit for the next group.
    fn gather(&mut self, rules: Grouping) -> Vec<Waiting<T>> {
        let Self { behind, queue, .. } = self;
        let most = rules.max_messages.saturating_mul(WAITING_GROUPS);
        let (mut group, mut passed, mut turn) = (Vec::new(), VecDeque::new(), None);
        let (mut rows, mut octets) = (0, 0);
        while passed.len() < most
            && let Some(one) = behind.pop_front().or_else(|| queue.try_recv().ok())
        {
            if one.answer.is_closed() {
                continue;
            }
            let organization = T::organization(&one.job);
            if rules.one_organization && *turn.get_or_insert(organization) != organization {
                passed.push_back(one);
                continue;
            }
            let (more_rows, more_octets) = T::size(&one.job);
            rows += more_rows;
            octets += more_octets;
            let too_much = rows > rules.max_messages || octets > rules.max_bytes;
            if too_much && !group.is_empty() {
                passed.push_back(one);
                break;
            }
            group.push(one);
        }
        passed.append(behind);
        *behind = passed;
        group
    }
}

/// Writes the jobs together and answers them. After an error that one of them may have caused,
/// tries each half, so that one bad message fails no other, and a group too large for the database
/// becomes two. Leaves out jobs without a waiting caller; after `patience` there is none.
async fn settle<T: GroupedWork>(work: Arc<T>, group: Vec<Waiting<T>>, patience: Duration) {
    let until = Instant::now() + patience;
    let mut pieces = vec![group];
    while let Some(mut piece) = pieces.pop() {
        piece.retain(|one| !one.answer.is_closed());
        let (jobs, answers): (Vec<_>, Vec<_>) =
            piece.into_iter().map(|one| (one.job, one.answer)).unzip();
        if jobs.is_empty() {
            continue;
        }
        // A failed send means that the caller has stopped waiting.
        match work.write(&jobs).await {
            Ok(results) => {
                for (answer, result) in answers.into_iter().zip(results) {
                    let _gave_up = answer.send(Ok(result));
                }
            }
            Err(error)
                if jobs.len() > 1 && error.may_be_caused_by_one() && Instant::now() < until =>
            {
                let again = jobs.into_iter().zip(answers);
                let mut first: Vec<_> =
                    again.map(|(job, answer)| Waiting { job, answer }).collect();
                let second = first.split_off(first.len() / 2);
                pieces.extend([second, first]);
            }
            Err(error) => {
                for answer in answers {
                    let _gave_up = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

impl<T: GroupedWork> Clone for Group<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), patience: self.patience }
    }
}

impl<T: GroupedWork> std::fmt::Debug for Group<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as Lock;

    use super::*;
    use crate::rules::Rules;

    /// Doubles numbers, records the groups, and fails groups with a number above a hundred.
    #[derive(Default)]
    struct Doubling {
        groups: Lock<Vec<Vec<usize>>>,
    }

    impl GroupedWork for Doubling {
        type Job = usize;
        type Answer = usize;

        /// A number is a row, and as many kilobytes.
        fn size(job: &usize) -> (usize, usize) {
            (1, *job * 1000)
        }

        fn organization(job: &usize) -> i64 {
            i64::try_from(job / 10).unwrap()
        }

        async fn write(&self, jobs: &[usize]) -> Result<Vec<usize>, StoreError> {
            self.groups.lock().unwrap().push(jobs.to_vec());
            match jobs.iter().max() {
                Some(101..200) => {
                    Err(StoreError::Corrupt { table: "numbers", detail: String::new() })
                }
                Some(200..) => Err(StoreError::NotDurable(None)),
                _ => Ok(jobs.iter().map(|job| job * 2).collect()),
            }
        }
    }

    fn rules(text: &str) -> Grouping {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("store.toml"), format!("[commit]\n{text}")).unwrap();
        Rules::load(folder.path()).unwrap().store.commit
    }

    type Answers = Vec<oneshot::Receiver<Result<usize, StoreError>>>;

    fn waiting(jobs: &[usize]) -> (Line<Doubling>, Answers) {
        let (queue, receiver) = mpsc::channel(100);
        let mut answers = Vec::new();
        for job in jobs {
            let (answer, answered) = oneshot::channel();
            assert!(queue.try_send(Waiting { job: *job, answer }).is_ok());
            answers.push(answered);
        }
        (Line { behind: VecDeque::new(), queue: receiver, linger: None }, answers)
    }

    fn gathered(jobs: &[usize], rules: Grouping) -> Vec<Vec<usize>> {
        let (mut line, _answers) = waiting(jobs);
        let groups = std::iter::repeat_with(|| line.gather(rules));
        let groups = groups.take_while(|group| !group.is_empty());
        groups.map(|group| group.iter().map(|one| one.job).collect()).collect()
    }

    #[test]
    fn all_that_wait_are_taken_within_the_bounds() {
        assert_eq!(gathered(&[1, 2, 3], rules("")), [vec![1, 2, 3]]);
        let two = rules("max_messages = 2");
        assert_eq!(gathered(&[1, 2, 3, 4, 5], two), [vec![1, 2], vec![3, 4], vec![5]]);
        // A job larger than the limit is a group of its own.
        let small = rules("max_bytes = 65536");
        let groups = gathered(&[30, 30, 30, 500, 1, 65], small);
        assert_eq!(groups, [vec![30, 30], vec![30], vec![500], vec![1], vec![65]]);
    }

    /// The oldest waiting job decides whose group is next; within an organization order is kept.
    #[test]
    fn a_group_is_of_one_organization_where_that_is_asked_for() {
        let jobs = [11, 21, 12, 22, 31, 13, 23];
        assert_eq!(gathered(&jobs, rules("")), [jobs]);
        let one = "one_organization = true";
        assert_eq!(gathered(&jobs, rules(one)), [vec![11, 12, 13], vec![21, 22, 23], vec![31]]);
        let two = rules(&format!("{one}\nmax_messages = 2"));
        let groups = gathered(&jobs, two);
        assert_eq!(groups, [vec![11, 12], vec![21, 22], vec![31], vec![13], vec![23]]);
    }

    /// A bounded number of jobs of other organizations is passed over; the rest stays in the queue.
    #[test]
    fn no_more_than_some_groups_are_left_behind() {
        let jobs = [11, 21, 31, 41, 51, 12, 61];
        let one = rules("one_organization = true\nmax_messages = 1");
        let (mut line, _answers) = waiting(&jobs);
        assert_eq!(line.gather(one).len(), 1);
        assert_eq!((line.behind.len(), line.queue.len()), (WAITING_GROUPS, 2));
        let every: usize = jobs[1..].iter().map(|_| line.gather(one).len()).sum();
        assert_eq!((every, line.behind.len(), line.queue.len()), (6, 0, 0));
    }

    #[test]
    fn what_nobody_waits_for_is_not_written() {
        let (mut line, mut answers) = waiting(&[1, 2, 3]);
        drop(answers.remove(1));
        let group = line.gather(rules(""));
        assert_eq!(group.iter().map(|one| one.job).collect::<Vec<_>>(), [1, 3]);
    }

    /// Returns the answer of each job, and the groups that were written.
    async fn settled(jobs: &[usize]) -> (Vec<Option<usize>>, Vec<Vec<usize>>) {
        let (mut line, answers) = waiting(jobs);
        let group = line.gather(rules(""));
        let work = Arc::new(Doubling::default());
        settle(Arc::clone(&work), group, Duration::from_secs(60)).await;
        let mut told = Vec::new();
        for answer in answers {
            told.push(answer.await.unwrap().ok());
        }
        let groups = work.groups.lock().unwrap().clone();
        (told, groups)
    }

    #[tokio::test]
    async fn one_bad_job_fails_no_other() {
        let (told, groups) = settled(&[1, 150, 3, 4]).await;
        assert_eq!(told, [Some(2), None, Some(6), Some(8)]);
        let halves: [&[usize]; 5] = [&[1, 150, 3, 4], &[1, 150], &[1], &[150], &[3, 4]];
        assert_eq!(groups, halves);
    }

    #[tokio::test]
    async fn after_a_failure_that_is_of_all_none_is_tried_alone() {
        assert_eq!(settled(&[1, 200, 3]).await, (vec![None; 3], vec![vec![1, 200, 3]]));
    }

    /// After `patience` no caller waits any more.
    #[tokio::test]
    async fn when_the_time_is_up_nothing_more_is_tried() {
        let (mut line, answers) = waiting(&[1, 150]);
        let group = line.gather(rules(""));
        let work = Arc::new(Doubling::default());
        settle(Arc::clone(&work), group, Duration::ZERO).await;
        for answer in answers {
            assert!(matches!(answer.await.unwrap(), Err(StoreError::Corrupt { .. })));
        }
        assert_eq!(*work.groups.lock().unwrap(), [vec![1, 150]]);
    }

    #[tokio::test]
    async fn many_ask_and_each_hears_its_own_answer() {
        let group = Group::start(Doubling::default(), rules("max_messages = 7"), 3);
        let mut asking = tokio::task::JoinSet::new();
        for job in 0..100 {
            let group = group.clone();
            asking.spawn(async move { (job, group.ask(job).await.unwrap()) });
        }
        assert!(asking.join_all().await.into_iter().all(|(job, answer)| answer == job * 2));
    }

    /// Like a runtime that ends the writers before the callers.
    #[tokio::test]
    async fn without_a_writer_there_is_an_error() {
        let group = Group::start(Doubling::default(), rules(""), 0);
        assert!(matches!(group.ask(1).await, Err(StoreError::Ended)));
    }
}
