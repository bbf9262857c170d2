// Package eta says how long somebody in line will wait, as a band: half of such
// waits are no longer than P50, nine in ten no longer than P90. It rests on what has
// happened; while hardly anything has, on the pace of the engine that is at work, and
// where that tells too little it says nothing. It is pure: no
// clock, no lock, no random source of its own kind; the same calls give the same bands.
//
// # How
//
//  1. What a job may take is the mean slot time of its key and prompt size, else of
//     its key, else of all, but no more than its longest answer takes at the engine's
//     pace. Around it, slot times are spread as all were around theirs.
//  2. The work before somebody is what those before him may take, and what is left of
//     the jobs that run, given how long they have run already. Shared by the slots it
//     is the nominal wait.
//  3. How real waits compared with their nominal ones is remembered by class and
//     place: the quantiles of that make the band. So what the arithmetic cannot know,
//     who comes later and passes, who gives up, is in it, as far as it goes on as it
//     did.
//  4. How often bands held is watched by class, and they are stretched or drawn in
//     until half of the waits, and nine in ten, are no longer than told.
//  5. While few waits are known, the band is that of sums drawn from the slot times.
//  6. While hardly any job is known, the pace of the engine stands in: the time for the
//     prompts, and for answers as long as answers are anywhere, up to what bounds those
//     who came. It is wide, and not told where one of them has no bound and no answer is
//     known. The first answers, and how long what runs has run, bend it.
package eta
