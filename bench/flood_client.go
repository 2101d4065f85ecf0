package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// respConn is a connection to the service that sends many commands before it reads the replies.
type respConn struct {
	conn    net.Conn
	reader  *bufio.Reader
	command []byte // all of the next commands
}

const respPipeline = 512

func dialResp(address string) (*respConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &respConn{conn: conn, reader: bufio.NewReaderSize(conn, 1<<16)}, nil
}

// The commands that take units, all of them or none, and that only look.
const (
	take = "SG.ALLOW"
	peek = "SG.PEEK"
)

// send sends a command to a policy for each of n keys with consecutive numbers from first on, and calls each with how many units each
// key has left and was granted, in that order.
func (c *respConn) send(command, policy string, first, n int, cost int64, each func(number int, remaining, granted int64)) error {
	head := fmt.Sprintf("*4\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n", len(command), command, len(policy), policy, keyBytes)
	price := strconv.FormatInt(cost, 10)
	tail := fmt.Sprintf("\r\n$%d\r\n%s\r\n", len(price), price)
	var key [keyBytes]byte
	for n > 0 {
		some := min(n, respPipeline)
		c.command = c.command[:0]
		for i := range some {
			writeKey(key[:], first+i)
			c.command = append(append(append(c.command, head...), key[:]...), tail...)
		}
		if _, err := c.conn.Write(c.command); err != nil {
			return err
		}
		for i := range some {
			remaining, granted, err := c.read()
			if err != nil {
				return err
			}
			each(first+i, remaining, granted)
		}
		first, n = first+some, n-some
	}
	return nil
}

// read reads a reply: six numbers, of which the third is the number of units left, and the last that of units granted.
func (c *respConn) read() (remaining, granted int64, err error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, 0, err
	}
	if string(line) != "*6\r\n" {
		return 0, 0, fmt.Errorf("unexpected reply %q", line)
	}
	var numbers [6]int64
	for i := range numbers {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return 0, 0, err
		}
		if numbers[i], err = strconv.ParseInt(string(line[1:len(line)-2]), 10, 64); err != nil {
			return 0, 0, err
		}
	}
	return numbers[2], numbers[5], nil
}

// respCrew is a set of connections that share the requests.
type respCrew []*respConn

func dialCrew(address string, n int) (crew respCrew, err error) {
	for range n {
		c, err := dialResp(address)
		if err != nil {
			crew.close()
			return nil, err
		}
		crew = append(crew, c)
	}
	return crew, nil
}

func (crew respCrew) close() {
	for _, c := range crew {
		_ = c.conn.Close() // everything was read
	}
}

// send is like respConn.send, over all connections concurrently; replies arrive in any order.
func (crew respCrew) send(command, policy string, first, n int, cost int64, each func(number int, remaining, granted int64)) error {
	errs := make([]error, len(crew))
	var done sync.WaitGroup
	for i, c := range crew {
		from, to := first+i*n/len(crew), first+(i+1)*n/len(crew)
		done.Go(func() { errs[i] = c.send(command, policy, from, to-from, cost, each) })
	}
	done.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// jsonBatch is the number of keys in one request.
const jsonBatch = 500

// takeJSON sends requests for n keys as JSON, many keys per request, and calls each with the decisions in order.
func takeJSON(address, policy string, first, n int, cost int64, each func(number int, allowed bool)) error {
	for n > 0 {
		some := min(n, jsonBatch)
		var body strings.Builder
		var key [keyBytes]byte
		for i := range some {
			writeKey(key[:], first+i)
			fmt.Fprintf(&body, `,{"policy":%q,"key":%q,"cost":%d}`, policy, key[:], cost)
		}
		results, err := postRequests(address, `{"requests":[`+body.String()[1:]+`]}`)
		if err != nil {
			return err
		}
		if len(results) != some {
			return fmt.Errorf("/v1/allow: got %d results, want %d", len(results), some)
		}
		for i, result := range results {
			if result.Status != http.StatusOK && result.Status != http.StatusTooManyRequests {
				return fmt.Errorf("/v1/allow: status %d in the response", result.Status)
			}
			each(first+i, result.Allowed)
		}
		first, n = first+some, n-some
	}
	return nil
}

// allowResult is the service's result for one key.
type allowResult struct {
	Status  int
	Allowed bool
}

func postRequests(address, body string) ([]allowResult, error) {
	response, err := http.Post("http://"+address+"/v1/allow", "application/json", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return nil, fmt.Errorf("/v1/allow: %s: %s", response.Status, text)
	}
	var reply struct{ Results []allowResult }
	err = json.NewDecoder(response.Body).Decode(&reply)
	return reply.Results, err
}

// check calls forward-auth for a client's request, as a proxy does before it forwards the request.
func check(address, policy, client string) (allowed bool, err error) {
	request, err := http.NewRequest(http.MethodGet, "http://"+address+"/v1/check?policy="+policy, nil)
	if err != nil {
		return false, err
	}
	for name, value := range map[string]string{"Method": "GET", "Proto": "https", "Host": "example.com", "Uri": "/", "For": client} {
		request.Header.Set("X-Forwarded-"+name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return false, err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return true, nil
	case http.StatusTooManyRequests:
		return false, nil
	}
	return false, fmt.Errorf("/v1/check: %s", response.Status)
}
