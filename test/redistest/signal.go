package redistest

import "os"

// Signal sends the server a signal, such as the one that stops it without ending it.
func (n *Node) Signal(signal os.Signal) {
	n.t.Helper()
	n.ownOnly()
	if err := n.process.Process.Signal(signal); err != nil {
		n.t.Fatalf("redistest: %v", err)
	}
}
