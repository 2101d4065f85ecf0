// Command pictures draws the pictures of docs/ that show what the program does: the same traffic under several algorithms, as
// slidegate replay decides it, and the packages of this repository with their imports.
//
//	pictures -slidegate ../bin/slidegate -docs ../docs
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	program := flag.String("slidegate", "", "the program that replays the traffic")
	docs := flag.String("docs", "../docs", "the folder of the pictures, and of the traffic")
	flag.Parse()
	if err := draw(*program, *docs); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func draw(program, docs string) error {
	pictures := map[string][]byte{"architecture.svg": drawArchitecture()}
	for _, t := range traffics {
		svg, err := drawTraffic(program, docs, t)
		if err != nil {
			return err
		}
		pictures[t.picture] = svg
	}
	for name, svg := range pictures {
		if err := os.WriteFile(filepath.Join(docs, name), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// style makes a picture readable on light and on dark pages.
const style = `<style>
:root { --page: #ffffff; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0; --fill: #54aeff; --good: #1a7f37; --bad: #cf222e; --room: #f6f8fa }
@media (prefers-color-scheme: dark) {
:root { --page: #0d1117; --text: #f0f6fc; --quiet: #9198a1; --line: #3d444d; --fill: #1f6feb; --good: #3fb950; --bad: #f85149; --room: #151b23 } }
text { fill: var(--text) } .quiet { fill: var(--quiet) } .title { font-size: 18px; font-weight: 600 } .name { font-weight: 600 }
.page { fill: var(--page) } .line { stroke: var(--line) } .fill { fill: var(--fill) } .bad { fill: var(--bad) } .quota { stroke: var(--quiet); stroke-dasharray: 5 4 }
.admitted { stroke: var(--good); stroke-width: 2 } .refused { stroke: var(--bad); stroke-width: 2 }
.over { fill: var(--bad); font-weight: 600 } .room { fill: var(--room); stroke: var(--line) } .cell { fill: var(--page); stroke: var(--line) } .arrow { stroke: var(--quiet); fill: none } .tip { fill: var(--quiet) }
</style>
`
