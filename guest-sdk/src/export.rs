//! From a strategy to the component's exports.

use crate::bindings::assignor::strategy::types::{
    Assignment, Interest, Member, Protocol, Topic, TopicPartitions,
};
use crate::bindings::exports::assignor::strategy::strategy::Guest;
use crate::group::Group;
use crate::log::report_panics;
use crate::strategy::{Assigned, Strategy};

/// Makes a component of a [`Strategy`](crate::Strategy) or a [`SimpleStrategy`](crate::SimpleStrategy): exports the
/// contract's functions from the crate, which must be a `cdylib`.
///
/// The strategy is made by its [`Default`] when the first function is called, and kept as long as the host keeps the instance.
/// A panic's message and place are logged as an error before the instance dies.
///
/// Away from WebAssembly nothing is exported, so that `cargo test` works as for any crate.
#[macro_export]
macro_rules! export {
    ($strategy:ty) => {
        const _: () = {
            struct Component;

            impl $crate::__private::Instance for Component {
                type Strategy = $strategy;

                fn with<R>(f: impl ::core::ops::FnOnce(&mut Self::Strategy) -> R) -> R {
                    ::std::thread_local! {
                        static STRATEGY: ::std::cell::RefCell<$strategy> = ::core::default::Default::default();
                    }
                    STRATEGY.with_borrow_mut(f)
                }
            }

            $crate::__export_on_wasm!(Component);
        };
    };
}

/// The part of [`export!`] that needs a component.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[macro_export]
macro_rules! __export_on_wasm {
    ($component:ident) => {
        $crate::bindings::export!($component with_types_in $crate::bindings);
    };
}

/// In place of the exports: a use of what would be exported, so that the compiler does not call it dead.
#[cfg(not(target_arch = "wasm32"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __export_on_wasm {
    ($component:ident) => {
        const _: fn() = || {
            <$component as $crate::__private::Instance>::with(|_| ());
        };
    };
}

/// The one strategy of a component; what the macro implements.
pub trait Instance {
    /// Its type.
    type Strategy: Strategy;

    /// Calls `f` with it, after making it if it isn't there yet.
    fn with<R>(f: impl FnOnce(&mut Self::Strategy) -> R) -> R;
}

impl<I: Instance> Guest for I {
    fn name() -> String {
        report_panics();
        I::with(|strategy| strategy.name().to_owned())
    }

    fn supported_protocols() -> Vec<Protocol> {
        report_panics();
        I::with(|strategy| strategy.supported_protocols())
    }

    fn subscription(topics: Vec<String>) -> Result<Interest, String> {
        report_panics();
        I::with(|strategy| strategy.subscription(topics)).map_err(crate::Error::into_text)
    }

    fn assign(topics: Vec<Topic>, members: Vec<Member>) -> Result<Vec<Assignment>, String> {
        report_panics();
        let group = Group::new(topics, members);
        let plan = I::with(|strategy| strategy.assign(&group)).map_err(crate::Error::into_text)?;
        Ok(plan.into_assignments())
    }

    fn on_assignment(
        partitions: Vec<TopicPartitions>,
        user_data: Option<Vec<u8>>,
        generation: i32,
    ) -> Result<(), String> {
        report_panics();
        let assigned = Assigned { partitions, user_data_bytes: user_data, generation };
        I::with(|strategy| strategy.on_assignment(assigned)).map_err(crate::Error::into_text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::GroupBuilder;
    use crate::{Error, Plan};

    /// Counts its calls of `subscription`, and says so in the next one.
    #[derive(Default)]
    struct Counting {
        calls: u32,
    }

    impl Strategy for Counting {
        fn name(&self) -> &str {
            "counting"
        }
        fn subscription(&mut self, topics: Vec<String>) -> Result<Interest, Error> {
            self.calls += 1;
            Ok(Interest::all(topics).with_user_data(&self.calls)?)
        }
        fn assign(&self, group: &Group) -> Result<Plan, Error> {
            let first = group.members().next().ok_or_else(|| Error::new("nobody there"))?;
            let mut plan = group.plan();
            group.partitions().for_each(|partition| plan.give(first, partition));
            Ok(plan)
        }
    }

    struct Component;

    impl Instance for Component {
        type Strategy = Counting;
        fn with<R>(f: impl FnOnce(&mut Counting) -> R) -> R {
            thread_local! {
                static STRATEGY: std::cell::RefCell<Counting> = std::cell::RefCell::default();
            }
            STRATEGY.with_borrow_mut(f)
        }
    }

    #[test]
    fn an_instance_keeps_its_strategy_between_calls() {
        let first = Component::subscription(vec!["t".into()]).unwrap();
        let second = Component::subscription(vec!["t".into()]).unwrap();
        assert_eq!(first.topics, ["t"]);
        assert_eq!((first.user_data, second.user_data), (Some(vec![1]), Some(vec![2])));
    }

    #[test]
    fn exports_are_the_strategys_functions() {
        let group = GroupBuilder::new().topic("t", 2).member("a", ["t"]).member("b", ["t"]).build();
        let (topics, members) = (group.raw_topics().to_vec(), group.raw_members().to_vec());
        let plan = Component::assign(topics, members).unwrap();
        let partitions: Vec<_> = plan.into_iter().map(|assignment| assignment.partitions).collect();
        assert_eq!(partitions, [vec![0, 1], vec![]]);
        assert_eq!(Component::assign(Vec::new(), Vec::new()), Err("nobody there".to_owned()));
        assert_eq!(Component::on_assignment(Vec::new(), None, 1), Ok(()));
        assert_eq!(<Component as Guest>::name(), "counting");
        assert_eq!(Component::supported_protocols(), [Protocol::Eager, Protocol::Cooperative]);
    }
}
