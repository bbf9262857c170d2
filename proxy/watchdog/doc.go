// Package watchdog notices that an engine is silent for too long in a run.
//
// # What it promises
//
//   - There is one limit for each stage: until the headers of the response, until the
//     first token, between two signs of life after that, and from the finish reason to the
//     end of the stream. Each counts from the last thing that was heard.
//   - Config.Silent is called once, in a goroutine of the timer, unless Stop came before;
//     what is heard while the timer runs counts.
//   - To hear costs no system call and no lock: it may happen at every token.
package watchdog
