package main

import (
	"bytes"
	"fmt"
	"strings"
)

// box is a box in the picture of the architecture. The field folders lists its packages as patterns of the go command, so that
// a test can compare the arrows with the imports.
type box struct {
	name, about              string
	folders                  string
	left, top, right, bottom int
	cells                    []string
}

const internal = "cmd/slidegate/internal/"

var boxes = []box{
	{name: "cmd/slidegate", about: "flags, serve, proxy, replay", folders: "cmd/slidegate", left: 300, top: 84, right: 560, bottom: 132},
	{name: "replay", about: "logs through limits", folders: internal + "replay/...", left: 40, top: 168, right: 220, bottom: 216},
	{name: "service", about: "puts the service together", folders: internal + "service", left: 300, top: 168, right: 560, bottom: 216},
	{name: "listeners", folders: internal + "listener/jsonapi/... " + internal + "listener/forward/... " + internal + "listener/envoy/... " + internal + "listener/resp/...",
		left: 180, top: 252, right: 480, bottom: 316, cells: []string{"jsonapi", "forward", "envoy", "resp"}},
	{name: "proxy", about: "slidegate proxy", folders: internal + "listener/proxy/...", left: 500, top: 252, right: 620, bottom: 316},
	{name: "open", about: "opens stores, puts layers over them", folders: internal + "open/...", left: 650, top: 252, right: 910, bottom: 316},
	{name: "gate", about: "decides by policies", folders: internal + "gate/... " + internal + "listener/rulingsapi/...", left: 300, top: 352, right: 500, bottom: 400},
	{name: "router adapters", about: "gin, echo, fiber", folders: "httplimit/ginlimit httplimit/echo4limit httplimit/echo5limit httplimit/fiberlimit",
		left: 40, top: 436, right: 180, bottom: 484},
	{name: "config", about: "policies in YAML", folders: "config/...", left: 210, top: 436, right: 410, bottom: 484},
	{name: "grpclimit", about: "gRPC interceptors", folders: "grpclimit/...", left: 440, top: 436, right: 610, bottom: 484},
	{name: "clientip", about: "who the client is", folders: "clientip", left: 40, top: 604, right: 180, bottom: 652},
	{name: "httplimit", about: "HTTP middleware", folders: "httplimit", left: 210, top: 520, right: 410, bottom: 568},
	{name: "policy", about: "the policy engine, rulings", folders: "policy/... internal/engine internal/keyform rulings", left: 210, top: 604, right: 410, bottom: 652},
	{name: "layer", folders: "layer/... internal/layer/...", left: 40, top: 688, right: 460, bottom: 752, cells: []string{"stack", "observe", "lease", "failure", "refusals", "coalesce"}},
	{name: "stores", folders: "memstore redisstore/... pgstore kvstore/...", left: 500, top: 688, right: 910, bottom: 752,
		cells: []string{"memstore", "redisstore", "pgstore", "kvstore"}},
	{name: "storetest", about: "the contract, as tests", folders: "storetest", left: 40, top: 788, right: 200, bottom: 836},
	{name: "slidegate", about: "Limit, Limiter, Decision", folders: ".", left: 240, top: 788, right: 460, bottom: 836},
	{name: "store", about: "what a store implements", folders: "store", left: 240, top: 872, right: 720, bottom: 920},
	{name: "rule", about: "the decision, in integers, without a clock, a lock or memory of its own", folders: "rule", left: 240, top: 956, right: 720, bottom: 1004},
}

// arrow is an import, drawn as a line. The field line has the x and y of each corner in turn.
type arrow struct {
	from, to string
	line     []int
}

var arrows = []arrow{
	{"cmd/slidegate", "service", []int{430, 132, 430, 168}},
	{"cmd/slidegate", "replay", []int{330, 132, 190, 168}},
	{"service", "listeners", []int{370, 216, 340, 252}},
	{"service", "proxy", []int{490, 216, 545, 252}},
	{"service", "open", []int{540, 216, 700, 252}},
	{"listeners", "gate", []int{370, 316, 380, 352}},
	{"proxy", "gate", []int{540, 316, 470, 352}},
	{"open", "layer", []int{740, 316, 740, 610, 420, 688}},
	{"open", "stores", []int{790, 316, 790, 688}},
	{"replay", "config", []int{130, 216, 130, 396, 240, 436}},
	{"gate", "config", []int{370, 400, 330, 436}},
	{"router adapters", "httplimit", []int{110, 484, 230, 520}},
	{"config", "httplimit", []int{310, 484, 310, 520}},
	{"grpclimit", "policy", []int{500, 484, 500, 628, 410, 628}},
	{"httplimit", "policy", []int{310, 568, 310, 604}},
	{"policy", "clientip", []int{210, 628, 180, 628}},
	{"policy", "layer", []int{290, 652, 270, 688}},
	{"layer", "stores", []int{460, 720, 500, 720}},
	{"layer", "slidegate", []int{340, 752, 345, 788}},
	{"stores", "store", []int{660, 752, 640, 872}},
	{"storetest", "slidegate", []int{200, 812, 240, 812}},
	{"slidegate", "store", []int{350, 836, 380, 872}},
	{"store", "rule", []int{480, 920, 480, 956}},
}

func drawArchitecture() []byte {
	var svg bytes.Buffer
	svg.WriteString(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 1036" font-family="system-ui, sans-serif" font-size="13">
<title>The packages of Slidegate, and what imports what</title>
` + style + `<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto"><path class="tip" d="M0 0L9 4L0 8Z"/></marker></defs>
<rect class="page" width="960" height="1036"/>
<text class="title" x="24" y="32">Packages, and what imports what</text>
<text class="quiet" x="24" y="54">An arrow means "imports". No arrow points up. What follows from other arrows is not drawn.</text>
<line class="quota" x1="24" x2="936" y1="418" y2="418"/>
<text class="quiet" x="936" y="410" text-anchor="end">the program</text>
<text class="quiet" x="936" y="434" text-anchor="end">the library</text>
`)
	for _, a := range arrows {
		var corners strings.Builder
		for i := 0; i < len(a.line); i += 2 {
			fmt.Fprintf(&corners, "%d,%d ", a.line[i], a.line[i+1])
		}
		fmt.Fprintf(&svg, "<polyline class=\"arrow\" data-from=\"%s\" data-to=\"%s\" points=\"%s\" marker-end=\"url(#tip)\"/>\n",
			a.from, a.to, strings.TrimSpace(corners.String()))
	}
	for _, r := range boxes {
		drawBox(&svg, r)
	}
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}

func drawBox(svg *bytes.Buffer, r box) {
	middle := (r.left + r.right) / 2
	fmt.Fprintf(svg, "<rect class=\"room\" data-room=\"%s\" data-packages=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n",
		r.name, r.folders, r.left, r.top, r.right-r.left, r.bottom-r.top)
	fmt.Fprintf(svg, "<text class=\"name\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", middle, r.top+20, r.name)
	if r.about != "" {
		fmt.Fprintf(svg, "<text class=\"quiet\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", middle, r.top+38, r.about)
	}
	for i, cell := range r.cells {
		width := (r.right - r.left - 8) / len(r.cells)
		left := r.left + 4 + i*width
		fmt.Fprintf(svg, "<rect class=\"cell\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"26\" rx=\"4\"/>\n", left+2, r.top+30, width-4)
		fmt.Fprintf(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", left+width/2, r.top+47, cell)
	}
}
