package faults_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/testkit"
	"github.com/slidegate/slidegate/test/natstest"
)

// natsNode is a NATS server.
type natsNode struct{ *natstest.Node }

func (n natsNode) Addr() string            { return strings.TrimPrefix(n.URL(), "nats://") }
func (n natsNode) Signal(s syscall.Signal) { n.Node.Signal(s) }

func natsFaults() []fault {
	return common("NATS", func(t *testing.T) (server, func(string) string) {
		return natsNode{natstest.StartNode(t)}, func(addr string) string { return "nats://" + addr }
	})
}

// embeddedFaults are the faults of NATS servers in the program itself.
func embeddedFaults() []fault {
	// member is a fault of other members of a cluster.
	member := func(name string, who []int, begin, end func(t *testing.T, c *embedded, i int)) fault {
		return fault{"NATS, three embedded", name, func(t *testing.T, p program) setting {
			c := newEmbedded(t, p)
			c.start(t, 1)
			c.start(t, 2)
			each := func(do func(t *testing.T, c *embedded, i int)) func() {
				return func() {
					for _, i := range who {
						do(t, c, i)
					}
				}
			}
			return setting{url: c.urls[0], begin: each(begin), end: each(end)}
		}}
	}
	signal := func(s syscall.Signal) func(*testing.T, *embedded, int) {
		return func(t *testing.T, c *embedded, i int) { testkit.NoError(t, c.members[i].Signal(s)) }
	}
	restart := func(t *testing.T, c *embedded, i int) { c.start(t, i) }
	kill := func(_ *testing.T, c *embedded, i int) { c.members[i].End() }
	return []fault{
		{"NATS, embedded", "none", func(t *testing.T, _ program) setting {
			return setting{url: "nats:embedded?dir=" + t.TempDir(), begin: nothing, end: nothing}
		}},
		{"NATS, embedded", "full", fullDisk},
		{"NATS, embedded", "full, and later enlarged", enlargedDisk},
		member("none", nil, nil, nil),
		member("one killed", []int{1}, kill, restart),
		member("another one killed", []int{2}, kill, restart),
		member("one stopped", []int{1}, signal(syscall.SIGSTOP), signal(syscall.SIGCONT)),
		member("two killed", []int{1, 2}, kill, restart),
		member("two stopped", []int{1, 2}, signal(syscall.SIGSTOP), signal(syscall.SIGCONT)),
	}
}

// embedded is a cluster of services with embedded NATS servers.
type embedded struct {
	program program
	urls    [3]string
	members [3]*service
}

func newEmbedded(t *testing.T, p program) *embedded {
	t.Helper()
	c := &embedded{program: p}
	var routes [3]string
	for i := range routes {
		routes[i] = testkit.FreeAddress(t)
	}
	for i := range c.urls {
		c.urls[i] = fmt.Sprintf("nats:embedded?dir=%s&route=%s&cluster=%s", t.TempDir(), routes[i], strings.Join(routes[:], ","))
	}
	return c
}

func (c *embedded) start(t *testing.T, i int) {
	t.Helper()
	c.members[i] = serve(t, c.program, policies(c.urls[i], c.program))
}

// fill fills a disk with a file, whose name it returns.
func fill(t *testing.T, folder string) string {
	t.Helper()
	name := filepath.Join(folder, "filler")
	file, err := os.Create(name)
	testkit.NoError(t, err)
	defer file.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for {
			if _, err := file.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
	return name
}

// fullDisk fills the disk of an embedded server with a file, and removes the file.
func fullDisk(t *testing.T, _ program) setting {
	folder := testkit.SmallDisk(t, "16m")
	var filler string
	return setting{
		url:   "nats:embedded?dir=" + filepath.Join(folder, "nats"),
		begin: func() { filler = fill(t, folder) }, end: func() { testkit.NoError(t, os.Remove(filler)) },
	}
}

// enlargedDisk fills the disk of an embedded server, and enlarges the disk.
func enlargedDisk(t *testing.T, p program) setting {
	folder := testkit.SmallDisk(t, "16m")
	return setting{
		url:   "nats:embedded?dir=" + filepath.Join(folder, "nats"),
		begin: func() { fill(t, folder) },
		end:   func() { testkit.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, "size=200m")) },
	}
}
