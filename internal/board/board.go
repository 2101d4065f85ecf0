// Package board checks what callers hand to a store.Board, so that all stores accept the same.
package board

import (
	"fmt"
	"time"

	"github.com/slidegate/slidegate/rule"
	"github.com/slidegate/slidegate/store"
)

// CheckPost returns an error for arguments that no store accepts for Post.
func CheckPost(topic, author string, note []byte, life time.Duration) error {
	if err := CheckTopic(topic); err != nil {
		return err
	}
	if !isName(author) {
		return invalidName("author")
	}
	if len(note) > store.MaxNote {
		return fmt.Errorf("note: has %d bytes; the maximum is %d", len(note), store.MaxNote)
	}
	if longest := rule.MaxWindow.Duration(); life < time.Microsecond || life > longest {
		return fmt.Errorf("life: must be %v to %v, not %v", time.Microsecond, longest, life)
	}
	return nil
}

// CheckTopic returns an error for a topic that no store accepts.
func CheckTopic(topic string) error {
	if !isName(topic) {
		return invalidName("topic")
	}
	return nil
}

// Full is the error of a store that has as many notes in a topic as it takes.
func Full() error {
	return fmt.Errorf("note: the topic has notes of %d authors already, which is the maximum", store.MaxNotes)
}

func invalidName(field string) error {
	return fmt.Errorf("%s: must be 1 to %d lower-case letters, digits and -", field, store.MaxBoardName)
}

func isName(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return text != "" && len(text) <= store.MaxBoardName
}
