//! What the machine asks for, carried out.

use std::rc::Rc;

use tokio::task::AbortHandle;

use super::messages::Event;
use super::{Common, Driver, Link, work};
use crate::consumer::clock::Moment;
use crate::consumer::connection::{Channel, RequestError};
use crate::consumer::coordinator;
use crate::consumer::machine::Action;

impl Driver {
    pub(super) fn act(&mut self) {
        while let Some(action) = self.machine.action() {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action) {
        let ended = self.watch.action(&self.common.config.group_id, &action, Moment::now());
        self.rebalanced(ended);
        match action {
            Action::FindCoordinator(id) => {
                self.spawn(move |common| async move {
                    let group = common.config.group_id.as_str();
                    let answer =
                        common.metadata.ask(|version| coordinator::find_request(group, version)).await;
                    Event::Coordinator(id, answer.map(coordinator::found))
                });
            }
            Action::Connect(address) => {
                self.requests.abort_all();
                let channel = || Channel::new(address.clone(), Rc::clone(&self.common.settings));
                let link = Link { rebalance: channel(), rest: channel() };
                self.common.link.replace(Some(Rc::new(link)));
            }
            Action::Revoke(revocation) => self.revoke(revocation),
            Action::Prepare { round, topics, identity } => self.prepare(round, topics, &identity),
            Action::Join { id, member_id, reason, protocols } => {
                self.common.shared.joining();
                self.request(
                    move |common, link| async move {
                        coordinator::join(&link.rebalance, &common.config, &member_id, &reason, protocols)
                            .await
                    },
                    move |answer| Event::Joined(id, answer),
                );
            }
            Action::Assign { round, strategy, identity, members, user_data } => {
                let name = self.strategies.get(strategy).cloned().unwrap_or_default();
                let cx = self.context(&identity);
                let question = work::Question { strategy, name, cx, members, user_data };
                self.spawn(move |common| work::plan(common, round, question));
            }
            Action::CancelAssign => self.running.cancel(),
            Action::Sync { id, identity, protocol, plan } => self.request(
                move |common, link| async move {
                    coordinator::sync(&link.rebalance, &common.config, &identity, &protocol, plan).await
                },
                move |answer| Event::Synced(id, answer),
            ),
            Action::Heartbeat { id, identity } => self.request(
                move |common, link| async move {
                    coordinator::heartbeat(&link.rest, &common.config, &identity).await
                },
                move |answer| Event::Beat(id, answer),
            ),
            Action::Leave { id, member_id, reason } => self.request(
                move |common, link| async move {
                    coordinator::leave(&link.rest, &common.config, &member_id, &reason).await
                },
                move |answer| {
                    if let Err(e) = answer {
                        tracing::warn!(error = %e, "LeaveGroup was not answered");
                    }
                    Event::Left(id)
                },
            ),
            Action::Renew(identity) => self.common.shared.renew(identity),
            Action::Deliver(delivery) => self.deliver(delivery),
            Action::Lease(until) => self.common.shared.lease(until),
            Action::Lose { cause } => self.lose(cause),
            Action::Unassign => self.unassign(),
            Action::Event(event) => self.tell(&event),
            Action::Fail(error) => self.common.shared.report(error),
            Action::Closed => self.closed = true,
        }
    }

    /// Runs a task whose outcome matters whatever becomes of the coordinator.
    pub(super) fn spawn<F>(&mut self, task: impl FnOnce(Rc<Common>) -> F) -> AbortHandle
    where
        F: Future<Output = Event> + 'static,
    {
        let events = self.common.events.clone();
        let task = task(Rc::clone(&self.common));
        self.tasks.spawn_local(async move {
            // The driver has ended if nobody receives.
            let _ = events.send(task.await);
        })
    }

    /// Sends a request to the coordinator, and its answer as an event.
    fn request<T, F>(
        &mut self,
        send: impl FnOnce(Rc<Common>, Rc<Link>) -> F,
        event: impl FnOnce(Result<T, String>) -> Event + 'static,
    ) where
        T: 'static,
        F: Future<Output = Result<T, RequestError>> + 'static,
    {
        let events = self.common.events.clone();
        let Some(link) = self.common.link() else {
            let _ = events.send(event(Err("the coordinator is not known".into())));
            return;
        };
        let answer = send(Rc::clone(&self.common), link);
        self.requests.spawn_local(async move {
            let _ = events.send(event(answer.await.map_err(|e| e.to_string())));
        });
    }
}
