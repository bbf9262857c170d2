// Package eta says how long somebody in line will wait, as a band: half of such
// waits are no longer than P50, nine in ten no longer than P90. It rests on what has
// happened and on nothing else: while too little has, it says nothing. It is pure: no
// clock, no lock, no random source of its own kind; the same calls give the same bands.
//
// # How
//
//  1. What a job may take is the mean slot time of its key and prompt size, else of
//     its key, else of all. Around it, slot times are spread as all were around theirs.
//  2. The work before somebody is what those before him may take, and what is left of
//     the jobs that run, given how long they have run already. Shared by the slots it
//     is the nominal wait.
//  3. How real waits compared with their nominal ones is remembered by class and
//     place: the quantiles of that make the band. So what the arithmetic cannot know,
//     who comes later and passes, who gives up, is in it, as far as it goes on as it
//     did.
//  4. While few waits are known, the band is that of sums drawn from the slot times.
package eta
