//! The order of those who wait for a lane.

use super::*;

fn waiting(lanes: &Lanes) -> usize {
    locked(&lanes.lane("w").queue).waiting.len()
}

#[test]
fn a_lane_is_handed_to_those_who_wait_in_the_order_they_came() {
    let (lanes, order) = (Lanes::default(), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let first = lanes.enter("w", Duration::ZERO).unwrap();
        for n in 0..20 {
            let (lanes, order) = (&lanes, &order);
            scope.spawn(move || {
                let held = lanes.enter("w", Duration::MAX).unwrap();
                locked(order).push(n);
                drop(held);
            });
            while waiting(lanes) == n {
                thread::yield_now();
            }
        }
        drop(first);
    });
    assert_eq!(*locked(&order), (0..20).collect::<Vec<_>>());
    assert!(!locked(&lanes.lane("w").queue).held, "and is free behind the last");
}

#[test]
fn who_gives_up_leaves_the_queue_to_the_others() {
    let lanes = Lanes::default();
    let held = lanes.enter("w", Duration::ZERO).unwrap();
    thread::scope(|scope| {
        let patient = scope.spawn(|| lanes.enter("w", Duration::MAX).is_ok());
        while waiting(&lanes) == 0 {
            thread::yield_now();
        }
        for wait in [Duration::ZERO, Duration::from_millis(5)] {
            let gave_up = lanes.enter("w", wait).unwrap_err();
            assert!(matches!(gave_up, Error::LaneBusy { waited, .. } if waited == wait));
        }
        assert_eq!(waiting(&lanes), 1);
        drop(held);
        assert!(patient.join().unwrap());
    });
    lanes.enter("w", Duration::ZERO).unwrap();
}
