package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// traffic is a recording that a picture shows under every limit.
type traffic struct {
	log     string
	picture string
	title   string
	about   string
}

var traffics = []traffic{
	{"traffic/bursts.jsonl", "bursts.svg", "Four bursts of 20 requests against a quota of 20 per minute",
		"The blue area is what was admitted in the last 60 seconds. Above the dashed line, the quota, it is red."},
	{"traffic/busy.jsonl", "busy.svg", "A client that sends 30 requests per minute, against a quota of 20 per minute",
		"Ticks below the area are requests: long green ones were admitted, short red ones refused."},
}

const (
	quota       = 20
	windowMilli = 60_000
)

// limits holds the limits of a picture's rows.
var limits = []struct{ text, about string }{
	{"20/1m", "the default: a log up to 100"},
	{"20/1m segments=60 overlap=whole", "the default above 100: parts"},
	{"20/1m segments=1", "a weighted counter"},
	{"20/1m fixed-window", ""},
	{"20/1m token-bucket", "burst = quota"},
	{"20/1m token-bucket burst=5", ""},
}

// decision is a line of slidegate replay --decisions.
type decision struct {
	T       int64 `json:"t"` // in milliseconds
	Allowed bool  `json:"allowed"`
}

// replay runs slidegate replay on a recording with a limit.
func replay(program, log, limit string) ([]decision, error) {
	folder, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	out := filepath.Join(folder, "decisions.jsonl")
	command := exec.Command(program, "replay", "--limit", limit, "--decisions", out, log)
	if output, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("replay %s: %w\n%s", limit, err, output)
	}
	file, err := os.Open(out)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var decisions []decision
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var d decision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			return nil, err
		}
		decisions = append(decisions, d)
	}
	return decisions, nil
}

// step is the number of units admitted in the window that ends at a time.
type step struct {
	at    int64
	units int
}

// inWindow returns how many units were admitted within the last window, as steps, and their maximum.
func inWindow(decisions []decision) (steps []step, most int) {
	var live []int64 // admission times of the units that still count
	leave := func(until int64) {
		for len(live) > 0 && live[0]+windowMilli <= until {
			at := live[0] + windowMilli
			live = live[1:]
			steps = append(steps, step{at, len(live)})
		}
	}
	for _, d := range decisions {
		leave(d.T)
		if d.Allowed {
			live = append(live, d.T)
			most = max(most, len(live))
			steps = append(steps, step{d.T, len(live)})
		}
	}
	leave(1 << 62)
	return steps, most
}

const (
	left, width       = 300, 544 // of the area with the curves
	rowHeight, topRow = 92, 96
	curveHeight       = 60 // twice the quota
)

func drawTraffic(program, docs string, t traffic) ([]byte, error) {
	var svg bytes.Buffer
	height := topRow + rowHeight*len(limits) + 30
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1010 %d" font-family="system-ui, sans-serif" font-size="13">`+"\n", height)
	fmt.Fprintf(&svg, "<title>%s</title>\n%s<rect class=\"page\" width=\"1010\" height=\"%d\"/>\n", t.title, style, height)
	fmt.Fprintf(&svg, "<text class=\"title\" x=\"24\" y=\"32\">%s</text>\n<text class=\"quiet\" x=\"24\" y=\"54\">%s</text>\n", t.title, t.about)
	for i, limit := range limits {
		decisions, err := replay(program, filepath.Join(docs, t.log), limit.text)
		if err != nil {
			return nil, err
		}
		drawRow(&svg, topRow+rowHeight*i, limit.text, limit.about, decisions)
	}
	for minute := range spanMinutes + 1 {
		fmt.Fprintf(&svg, "<text class=\"quiet\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d:00</text>\n", x(int64(minute)*windowMilli), height-12, minute)
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes(), nil
}

// spanMinutes is how much of the recording is shown; all of them begin at a full minute.
const spanMinutes = 4

// x returns the horizontal position of a time of the recording.
func x(milli int64) float64 {
	return left + float64(milli)/float64(spanMinutes*windowMilli)*width
}

func drawRow(svg *bytes.Buffer, top int, limit, about string, decisions []decision) {
	begin := decisions[0].T - decisions[0].T%windowMilli
	base := top + curveHeight
	y := func(units int) float64 { return float64(base) - float64(units)*curveHeight/(2*quota) }
	steps, most := inWindow(decisions)

	fmt.Fprintf(svg, "<text class=\"name\" x=\"24\" y=\"%d\">%s</text>\n<text class=\"quiet\" x=\"24\" y=\"%d\">%s</text>\n", top+34, limit, top+52, about)
	for minute := range spanMinutes + 1 {
		at := x(int64(minute) * windowMilli)
		fmt.Fprintf(svg, "<line class=\"line\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", at, at, top, base+14)
	}
	drawArea(svg, "fill", steps, begin, y, 0, quota)
	drawArea(svg, "bad", steps, begin, y, quota, 2*quota)
	fmt.Fprintf(svg, "<line class=\"quota\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", left, left+width, y(quota), y(quota))
	admitted := 0
	for _, d := range decisions {
		class, length := "refused", 5
		if d.Allowed {
			admitted++
			class, length = "admitted", 11
		}
		fmt.Fprintf(svg, "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>\n", class, x(d.T-begin), x(d.T-begin), base+3, base+3+length)
	}
	class := "quiet"
	if most > quota {
		class = "over"
	}
	fmt.Fprintf(svg, "<text x=\"%d\" y=\"%d\">%d of %d admitted</text>\n", left+width+16, top+34, admitted, len(decisions))
	fmt.Fprintf(svg, "<text class=\"%s\" x=\"%d\" y=\"%d\">at most %d in 60 s</text>\n", class, left+width+16, top+52, most)
}

// drawArea draws the part of the steps that is between two heights.
func drawArea(svg *bytes.Buffer, class string, steps []step, begin int64, y func(int) float64, from, to int) {
	fmt.Fprintf(svg, "<path class=\"%s\" d=\"M%d %.1f", class, left, y(from))
	for _, s := range steps {
		if at := s.at - begin; at <= spanMinutes*windowMilli {
			fmt.Fprintf(svg, "H%.1fV%.1f", x(at), y(min(max(s.units, from), to)))
		}
	}
	fmt.Fprintf(svg, "H%dV%.1fZ\"/>\n", left+width, y(from))
}
