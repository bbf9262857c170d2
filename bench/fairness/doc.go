// Command fairness simulates a day on one engine slot: three people who ask now and
// then, two agents who ask again and again, and one key with endless work. It drives
// the policy of package line itself, in virtual time, under several rules, and prints
// how long each key's jobs wait, and how often the waits that were foretold by package
// eta were no longer than told. Slot times are drawn from a bounded Pareto distribution,
// 10 s to half an hour, times a factor of the user and of the prompt's size. The same
// flags give the same figures.
//
//	go run ./bench/fairness -svg docs/fairness.svg
package main
