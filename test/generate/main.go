// Command generate prints a log of synthetic traffic, to replay:
//
//	go run ./test/generate -as combined -requests 50000 > access.log
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/slidegate/slidegate/internal/testkit/generate"
)

func main() {
	var o generate.Options
	flag.StringVar(&o.Shape, "shape", "", "kind of traffic: "+strings.Join(generate.Shapes, ", ")+"; by default the first")
	flag.Uint64Var(&o.Seed, "seed", 0, "seed of the random numbers; 1 by default")
	flag.Int64Var(&o.Requests, "requests", 0, "number of requests; 100,000 by default")
	flag.IntVar(&o.Keys, "keys", 0, "number of users; 1,000 by default")
	flag.DurationVar(&o.Span, "span", 0, "time span of the traffic; 1h by default")
	as := flag.String("as", "lines", "format: lines (JSON with t, key and cost) or combined (an access log)")
	flag.Parse()
	write, known := map[string]func(io.Writer, generate.Options) error{"lines": generate.Lines, "combined": generate.Combined}[*as]
	if !known || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
