//! Programs and their messages, one by one.

use super::*;

fn calls(untold: f64, answers: f64) -> Calls {
    let what = Calling {
        members: vec![0, 1],
        destinations: Destinations::Uniform,
        bytes: 100,
        gap: 0.0,
        queue: 1,
        untold,
        answers,
        leaving: Leaving::Stay,
        keeps: false,
        seed: 3,
    };
    Calls::new(what, &[0, 0], 1)
}

fn sent(calls: &mut Calls, host: u32) -> Message {
    match calls.next(host, 0) {
        Next::Send(message) => message,
        other => panic!("{other:?}"),
    }
}

fn part(of: Message, src: u32, bytes: u32, last: bool) -> Delivery {
    Delivery { src, dst: of.dst, bytes, tag: of.tag, last, born: 0 }
}

#[test]
fn an_answer_comes_on_the_sl_of_the_caller_when_the_whole_request_is_there() {
    let mut calls = calls(0.0, 1.0);
    calls.told = vec![0, 5];
    let request = sent(&mut calls, 0);
    assert_eq!((calls.sl(&request), request.dst), (5, 1));
    calls.told = vec![6, 7];
    let mut wake = Vec::new();
    calls.delivered(&part(request, 0, 60, false), 0, &mut wake);
    assert!(wake.is_empty() && calls.counts.requests_arrived == 0);
    calls.delivered(&part(request, 0, 40, true), 0, &mut wake);
    assert_eq!(wake, [1]);
    calls.close();
    let answer = sent(&mut calls, 1);
    // The called would be told 6, and the caller 7 by now.
    assert_eq!((calls.sl(&answer), answer.dst, calls.counts.on_old_sl), (5, 0, 1));
    assert_eq!((calls.next(1, 0), calls.next(0, 0)), (Next::Idle, Next::Idle));
}

#[test]
fn a_message_that_overtakes_is_seen_and_a_broken_one_is_not_answered() {
    let mut calls = calls(1.0, 1.0);
    let messages: Vec<Message> = (0..4).map(|_| sent(&mut calls, 0)).collect();
    let mut wake = Vec::new();
    for (i, late) in [(1, 0), (0, 1), (2, 1)] {
        calls.delivered(&part(messages[i], 0, 100, true), 0, &mut wake);
        assert_eq!(calls.counts.out_of_order, late);
    }
    calls.delivered(&part(messages[3], 0, 60, true), 0, &mut wake);
    calls.lost(&part(messages[3], 0, 40, false), Loss::NoEntry);
    assert_eq!((calls.counts.lost, calls.counts.requests_arrived, wake.len()), (1, 3, 3));
    assert_eq!(calls.free.len(), 4);
}

#[test]
fn programs_that_do_not_ask_keep_their_sl() {
    let kinds = |untold: f64| {
        let mut rng = Rng::new(1);
        let all: Vec<Program> = (0..2000).map(|_| Program::draw(&mut rng, untold)).collect();
        let share = |is: &dyn Fn(&Program) -> bool| all.iter().filter(|p| is(p)).count() as f64 / 2000.0;
        [
            share(&|p| matches!(p, Program::Told { asks_anew: true })),
            share(&|p| matches!(p, Program::Told { asks_anew: false })),
            share(&|p| matches!(p, Program::Fixed(0))),
            share(&|p| matches!(p, Program::Fixed(sl) if *sl > 0)),
        ]
    };
    assert_eq!(kinds(0.0)[2..], [0.0, 0.0]);
    assert_eq!(kinds(1.0)[..2], [0.0, 0.0]);
    let third = kinds(0.3);
    assert!((third[0] - 0.35).abs() < 0.03 && (third[1] - 0.35).abs() < 0.03, "{third:?}");
    // One in 16 of those on an SL of their own draws 0.
    assert!((third[2] - 0.16).abs() < 0.03 && (third[3] - 0.14).abs() < 0.03, "{third:?}");
}
