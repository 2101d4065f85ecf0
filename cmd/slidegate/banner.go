package main

import (
	"fmt"
	"log/slog"
	"net"
	"strings"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/service"
	"github.com/slidegate/slidegate/cmd/slidegate/internal/service/listen"
	"github.com/slidegate/slidegate/config"
)

// line is a line of the banner. Lines without a value are left out.
type line struct{ name, value string }

// listeners are all listeners, in the order of the banner, with their names and notes in it.
var listeners = []struct{ name, shown, note string }{
	{"proxy", "listens", ""}, {"http", "http", "   JSON and forward-auth"}, {"grpc", "grpc", "   Envoy's rate limit service"},
	{"resp", "resp", "   any Redis client"}, {"admin", "admin", "   a page for browsers, /metrics, explain, reset, rulings"}, {"metrics", "metrics", "   /metrics without a token"},
}

// printBanner prints what a server does, where it listens and how to try it, for a person, or logs it, for a program.
func (f *runningFlags) printBanner(c *console, log *slog.Logger, running *service.Server, about []line, try string) {
	if f.LogFormat == "json" {
		attrs := []any{slog.String("version", version())}
		for _, l := range about {
			attrs = append(attrs, slog.String(l.name, l.value))
		}
		log.Info("running", attrs...)
		for _, l := range listeners {
			if at := running.Address(l.name); at != "" {
				log.Info("listening", slog.String("listener", l.name), slog.String("address", at))
			}
		}
		return
	}
	for _, l := range listeners {
		if at := f.url(running, l.name); at != "" {
			about = append(about, line{l.shown, at + l.note})
		}
	}
	text := fmt.Sprintf("slidegate %s\n", version())
	for _, l := range about {
		for value := range strings.Lines(l.value) {
			text += fmt.Sprintf("  %-9s %s\n", l.name, strings.TrimSuffix(value, "\n"))
		}
	}
	if try != "" {
		text += "Try it:\n  " + try + "\n"
	}
	fmt.Fprint(c.err, text)
}

// url returns the address of a listener so that it can be pasted into a command: localhost for a listener on all addresses, and a URL
// for HTTP. It is empty if there is no such listener.
func (f *runningFlags) url(running *service.Server, name string) string {
	at := running.Address(name)
	host, port, err := net.SplitHostPort(at)
	ip := net.ParseIP(host)
	if err == nil && ip.IsUnspecified() {
		at = net.JoinHostPort("localhost", port)
	}
	loopback := host == "localhost" || ip.IsLoopback()
	switch {
	case at == "" || listen.IsUnix(at) || name == "grpc" || name == "resp":
		return at
	case f.TLS.Cert == "" || name == "metrics" || name == "http" && f.PlainHTTP || name == "admin" && loopback: // the admin listener does not use TLS on loopback
		return "http://" + at
	}
	return "https://" + at
}

// storeLine describes where counts are kept, and what decides while the store does not answer. It has nothing else of the URL, which
// may contain a password.
func (f *runningFlags) storeLine(running *service.Server, file *config.File) line {
	kind, _, _ := strings.Cut(file.Service.Store, ":")
	switch {
	case kind != "" && kind != "memory":
		return line{"store", kind + "; while it does not answer: " + running.FailureModes()}
	case f.State != "":
		return line{"store", "memory, kept in " + f.State}
	default:
		return line{"store", "memory, lost on exit; --state DIR keeps it"}
	}
}

// firstFew joins the first names, as many as fit on a line.
func firstFew(names []string) string {
	const maxNames = 8
	if len(names) > maxNames {
		names = append(names[:maxNames:maxNames], "...")
	}
	return strings.Join(names, ", ")
}
