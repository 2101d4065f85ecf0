package generate_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/slidegate/slidegate/cmd/slidegate/internal/replay/generate"
)

// Five requests of three users within a minute, as JSON lines.
func Example() {
	made, err := generate.New(generate.Options{Shape: generate.Steady, Requests: 5, Keys: 3, Span: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := generate.WriteLines(context.Background(), os.Stdout, made); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"t":1767571227918.994,"key":"user-0001","cost":1}
	// {"t":1767571253306.208,"key":"user-0003","cost":1}
	// {"t":1767571254808.369,"key":"user-0001","cost":1}
	// {"t":1767571256380.702,"key":"user-0001","cost":1}
	// {"t":1767571256563.346,"key":"user-0003","cost":1}
}
