package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The plot's measures, in pixels.
const (
	width, height = 960, 420
	left, bottom  = 60, 350
	top           = 60
)

// plot draws, for each key and rule, a bar to the median wait and a line from there
// to the 90th and, thinner, to the 99th percentile, on a logarithmic scale.
func plot(days []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="20" font-size="15">How long jobs wait for one slot, by key: bar to the median, lines to p90 and p99</text>`+"\n", left)
	for i, mark := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour} {
		y := level(mark)
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", left, width-20, y, y)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-6, y+4, []string{"1 s", "10 s", "1 min", "10 min", "1 h"}[i])
	}
	colours := []string{"#b0413e", "#3b6ea5", "#78a1bb", "#4a7c59"}
	for k, d := range days {
		x := left + k*220
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="10" height="10" fill="%s"/><text x="%d" y="%d">%s</text>`+"\n", x, top-22, colours[k], x+15, top-13, d.policy)
	}
	group := float64(width-20-left) / float64(len(days[0].users))
	for i, u := range days[0].users {
		from := float64(left) + float64(i)*group
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", from+group/2, bottom+20, u.name)
		bar := group * 0.8 / float64(len(days))
		for k, d := range days {
			b.WriteString(candle{from + group*0.1 + float64(k)*bar, bar * 0.8, colours[k]}.draw(d.users[i]))
		}
	}
	fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#333"/>`+"\n</svg>\n", left, width-20, bottom, bottom)
	return b.String()
}

// candle is where and how one tally is drawn.
type candle struct {
	x, wide float64
	colour  string
}

func (c candle) draw(t tally) string {
	p50, p90, p99 := level(t.wait(0.5)), level(t.wait(0.9)), level(t.wait(0.99))
	text := fmt.Sprintf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", c.x, p50, c.wide, bottom-p50, c.colour)
	for _, l := range []struct{ from, to, stroke float64 }{{p50, p90, 5}, {p90, p99, 1.5}} {
		text += fmt.Sprintf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="%.1f"/>`+"\n", c.x+c.wide/2, c.x+c.wide/2, l.from, l.to, c.colour, l.stroke)
	}
	return text
}

// level is the height of a wait in the plot: half a second at the bottom, two hours
// at the top.
func level(wait time.Duration) float64 {
	const least, most = 0.5, 7200.0
	seconds := min(max(wait.Seconds(), least), most)
	return bottom - (bottom-top)*math.Log(seconds/least)/math.Log(most/least)
}
