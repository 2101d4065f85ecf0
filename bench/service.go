package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// serviceRow is a server of the service scenario, and its load.
type serviceRow struct {
	name      string
	kind      string // the kind of a wireServer, or empty for the service
	script    string // what wrk sends
	decisions int    // in a request
	over      int    // the row that it is compared with, or -1
	goal      float64
}

// The goals: one decision over HTTP should cost little more than any response over HTTP, and a batch should be much cheaper per decision.
const (
	goalSingle  = 0.8
	goalBatched = 20
	batchSize   = 100
)

func serviceRows() []serviceRow {
	one, batch, check := allowScript(1), allowScript(batchSize), checkScript()
	return []serviceRow{
		{"(a handler that answers a constant)", "constant", one, 0, -1, 0},
		{"(the same, which reads the request)", "constant-reading", one, 0, -1, 0},
		{"slidegate, JSON, one at a time", "", one, 1, 0, goalSingle},
		{fmt.Sprintf("slidegate, JSON, batches of %d", batchSize), "", batch, batchSize, 2, goalBatched},
		{"slidegate, forward-auth", "", check, 1, 0, 0},
	}
}

// scripted is a script for wrk that sends prepared requests in turn, so that wrk itself costs little.
const scripted = `local requests, at = {}, 0
function init(args)
  for i = 1, 1000 do
    %s
  end
end
function request()
  at = at %% #requests + 1
  return requests[at]
end
`

// allowScript sends decisions for a thousand keys, n per request.
func allowScript(n int) string {
	body := `requests[i] = wrk.format("POST", "/v1/allow", head, '{"policy":"default","key":"user-' .. i .. '","cost":1}')`
	if n > 1 {
		body = fmt.Sprintf(`local asks = {}
    for j = 1, %d do asks[j] = '{"policy":"default","key":"user-' .. (i * 7 + j) %% 1000 .. '","cost":1}' end
    requests[i] = wrk.format("POST", "/v1/allow", head, '{"requests":[' .. table.concat(asks, ",") .. ']}')`, n)
	}
	return `local head = {["Content-Type"] = "application/json"}` + "\n" + fmt.Sprintf(scripted, body)
}

// checkScript sends requests like those of Traefik and Caddy, for a thousand clients.
func checkScript() string {
	return fmt.Sprintf(scripted, `requests[i] = wrk.format("GET", "/v1/check", {["X-Forwarded-Method"] = "GET", ["X-Forwarded-Proto"] = "https",
      ["X-Forwarded-Host"] = "example.com", ["X-Forwarded-Uri"] = "/page?n=1", ["X-Forwarded-For"] = "203.0." .. i % 200 .. "." .. i % 7})`)
}

// serviceSample holds the figures of one round of a row.
type serviceSample struct {
	perSecond, micros, p50, p99 float64 // requests a second, processor time and latencies in microseconds
	errors                      int
}

// serviceTables measures the service over HTTP: a server with one processor, and wrk, which makes the load, on the other.
func (r *run) serviceTables() ([]*table, error) {
	t := &table{
		title: fmt.Sprintf("Service: HTTP on loopback under %d connections", wireConnections),
		columns: []string{"server", "requests/s", "decisions/s", "p50 µs", "p99 µs", "errors", "CPU µs/request", "CPU µs/decision",
			"rate", "by CPU", "goal"},
	}
	wrk, err := exec.LookPath("wrk")
	switch {
	case !r.measuresOwn():
		t.note("Left out: -only does not name %s.", own)
		return []*table{t}, nil
	case err != nil:
		t.note("Left out: wrk, which makes the load, is missing. Install the package wrk.")
		return []*table{t}, nil
	case runtime.GOOS != "linux":
		t.note("Left out: this system does not report the CPU time of a process.")
		return []*table{t}, nil
	}
	rows := serviceRows()
	samples, err := r.timeService(wrk, rows)
	if err != nil {
		return nil, err
	}
	r.fillService(t, rows, samples)
	t.note("Medians of %d rounds of %v, the rows in turn. The constant handler sends as many bytes of JSON as a decision has, "+
		"sends no rate limit headers, and has the service's timeouts and garbage collection settings. "+
		"Rate is decisions/s over those of one at a time for batches, requests/s over the constant's "+
		"for the others; by CPU is the same of what the processor could do if it worked for the server alone, which others on the "+
		"machine disturb less, and which the goals are about. One processor each for server and load.", r.wireRounds(), r.wireTime())
	return []*table{t}, nil
}

// timeService times the rows in turn.
func (r *run) timeService(wrk string, rows []serviceRow) ([][]serviceSample, error) {
	dir, err := os.MkdirTemp("", "slidegate-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	servers := map[string]*serviceServer{}
	defer func() {
		for _, server := range servers {
			server.stop()
		}
	}()
	samples := make([][]serviceSample, len(rows))
	for round := range r.wireRounds() + 1 {
		if round == 0 && r.quick {
			continue // no need to warm up for figures that mean little
		}
		r.logf("service: round %d of %d", round, r.wireRounds())
		for i := range rows {
			which := (i + round) % len(rows) // so that none is always first
			row := &rows[which]
			if servers[row.kind] == nil {
				if servers[row.kind], err = r.startServiceServer(row.kind); err != nil {
					return nil, err
				}
			}
			script := filepath.Join(dir, strconv.Itoa(which)+".lua")
			if err := os.WriteFile(script, []byte(row.script), 0o600); err != nil {
				return nil, err
			}
			s, err := r.timeRow(wrk, script, servers[row.kind])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", row.name, err)
			}
			if round > 0 { // the first round warms up
				samples[which] = append(samples[which], s)
			}
		}
	}
	return samples, nil
}

// serviceServer is a server of the scenario.
type serviceServer struct {
	url, pid string
	stop     func()
}

// startServiceServer runs a server of the given kind, on one processor.
func (r *run) startServiceServer(kind string) (*serviceServer, error) {
	if kind == "" {
		p, err := r.startProgram([]string{"GOMAXPROCS=1"})
		if err != nil {
			return nil, err
		}
		return &serviceServer{"http://" + p.http + "/", p.pid(), p.stop}, nil
	}
	s, err := startWireServer(kind)
	if err != nil {
		return nil, err
	}
	return &serviceServer{s.url, strconv.Itoa(s.process.Process.Pid), s.stop}, nil
}

// timeRow puts a server under load for one round.
func (r *run) timeRow(wrk, script string, server *serviceServer) (serviceSample, error) {
	length := r.wireTime()
	ctx, cancel := context.WithTimeout(context.Background(), length+20*time.Second)
	defer cancel()
	before := treeCPU(server.pid)
	out, err := exec.CommandContext(ctx, wrk, "-t", "1", "-c", strconv.Itoa(wireConnections), "-d", length.String(), "--latency",
		"-s", script, server.url).CombinedOutput()
	if err != nil {
		return serviceSample{}, fmt.Errorf("wrk: %w: %s", err, out)
	}
	worked := treeCPU(server.pid) - before
	s := serviceSample{errors: wrkErrors(out)}
	requests, perSecond, err := readWrk(wrkErrorLine.ReplaceAll(out, nil))
	if err != nil {
		return serviceSample{}, err
	}
	s.perSecond, s.micros = perSecond, float64(worked)/float64(time.Microsecond)/requests
	if s.p50, err = wrkLatency(out, "50%"); err != nil {
		return serviceSample{}, err
	}
	s.p99, err = wrkLatency(out, "99%")
	return s, err
}

var numbers = regexp.MustCompile(`\d+`)

// wrkErrors counts responses other than 2xx, and connections that failed.
func wrkErrors(out []byte) (n int) {
	for _, line := range wrkErrorLine.FindAll(out, -1) {
		_, counts, _ := strings.Cut(string(line), ":")
		for _, number := range numbers.FindAllString(counts, -1) {
			count, _ := strconv.Atoi(number) // digits
			n += count
		}
	}
	return n
}

// wrkLatency reads a line of what wrk prints with --latency, such as "     99%    2.05ms", in microseconds.
func wrkLatency(out []byte, part string) (float64, error) {
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == part {
			d, err := time.ParseDuration(fields[1])
			return float64(d) / float64(time.Microsecond), err
		}
	}
	return 0, fmt.Errorf("wrk: cannot parse the latencies: %s", out)
}

// fillService makes the rows of the table.
func (r *run) fillService(t *table, rows []serviceRow, samples [][]serviceSample) {
	of := func(row int, field func(*serviceSample) float64) float64 {
		var all []float64
		for i := range samples[row] {
			all = append(all, field(&samples[row][i]))
		}
		return median(all)
	}
	cpuOf := func(s *serviceSample) float64 { return s.micros }
	rate := func(row int) float64 { return of(row, func(s *serviceSample) float64 { return s.perSecond }) }
	for i, row := range rows {
		failed := 0
		for _, s := range samples[i] {
			failed += s.errors
		}
		if failed > 0 {
			r.fail("service: %s: %d errors", row.name, failed)
		}
		micros := of(i, cpuOf)
		decisions, each, times, byCPU, result := "-", "-", "-", "-", "-"
		if row.decisions > 0 {
			decisions = fmt.Sprintf("%.0f", rate(i)*float64(row.decisions))
			each = fmt.Sprintf("%.2f", micros/float64(row.decisions))
			more := float64(row.decisions) / float64(max(1, rows[row.over].decisions))
			value := more * of(row.over, cpuOf) / micros
			times, byCPU = fmt.Sprintf("%.2fx", more*rate(i)/rate(row.over)), fmt.Sprintf("%.2fx", value)
			if row.goal > 0 {
				result = fmt.Sprintf("%gx: missed", row.goal)
				if value >= row.goal {
					result = fmt.Sprintf("%gx: met", row.goal)
				}
			}
		}
		t.add(row.name, fmt.Sprintf("%.0f", rate(i)), decisions, fmt.Sprintf("%.0f", of(i, func(s *serviceSample) float64 { return s.p50 })),
			fmt.Sprintf("%.0f", of(i, func(s *serviceSample) float64 { return s.p99 })), strconv.Itoa(failed), fmt.Sprintf("%.2f", micros), each, times, byCPU, result)
	}
}
