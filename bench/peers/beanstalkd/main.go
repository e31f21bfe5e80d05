// beanstalkd by its own protocol. It has no batches; commands are pipelined in
// their place.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"

	"harness"
)

type peer struct{ address string }

type conn struct {
	r *bufio.Reader
	w *bufio.Writer
}

func (p peer) dial() (*conn, error) {
	c, err := net.Dial("tcp", p.address)
	if err != nil {
		return nil, err
	}
	return &conn{bufio.NewReader(c), bufio.NewWriter(c)}, nil
}

// expect reads the answer to one command and gives what follows the word.
func (c *conn) expect(word string) (string, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(strings.TrimSpace(line), word)
	if !ok {
		return "", fmt.Errorf("%q instead of %s", line, word)
	}
	return strings.TrimSpace(rest), nil
}

func (c *conn) ask(word, command string) error {
	fmt.Fprintf(c.w, "%s\r\n", command)
	if err := c.w.Flush(); err != nil {
		return err
	}
	_, err := c.expect(word)
	return err
}

func (p peer) NewProducer(queue string) (harness.Producer, error) {
	c, err := p.dial()
	if err != nil {
		return nil, err
	}
	return c, c.ask("USING", "use "+queue)
}

func (c *conn) Put(jobs [][]byte) error {
	for _, job := range jobs {
		fmt.Fprintf(c.w, "put 1024 0 3600 %d\r\n%s\r\n", len(job), job)
	}
	if err := c.w.Flush(); err != nil {
		return err
	}
	for range jobs {
		if _, err := c.expect("INSERTED"); err != nil {
			return err
		}
	}
	return nil
}

// reserved reads one answer to reserve; "" when there was no job.
func (c *conn) reserved() (id string, err error) {
	var n int
	line, err := c.r.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "TIMED_OUT") {
		return "", err
	}
	if _, err = fmt.Sscanf(line, "RESERVED %s %d", &id, &n); err != nil {
		return "", fmt.Errorf("%q instead of RESERVED", line)
	}
	_, err = io.CopyN(io.Discard, c.r, int64(n)+2)
	return id, err
}

// take waits for one job and takes what else is there, without waiting.
func (c *conn) take(batch int) ([]string, error) {
	var ids []string
	fmt.Fprint(c.w, "reserve\r\n")
	for i := 1; i < batch; i++ {
		fmt.Fprint(c.w, "reserve-with-timeout 0\r\n")
	}
	if err := c.w.Flush(); err != nil {
		return nil, err
	}
	for i := 0; i < batch; i++ {
		id, err := c.reserved()
		if err != nil {
			return nil, err
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (c *conn) work(batch int, done func(n int)) error {
	for {
		ids, err := c.take(batch)
		if err != nil {
			return err
		}
		done(len(ids))
		for _, id := range ids {
			fmt.Fprintf(c.w, "delete %s\r\n", id)
		}
		if err := c.w.Flush(); err != nil {
			return err
		}
		for range ids {
			if _, err := c.expect("DELETED"); err != nil {
				return err
			}
		}
	}
}

func (p peer) Work(queue string, workers, batch int, done func(n int)) error {
	for i := 0; i < workers; i++ {
		c, err := p.dial()
		if err != nil {
			return err
		}
		if err := c.ask("WATCHING", "watch "+queue); err != nil {
			return err
		}
		go func() { panic(c.work(batch, done)) }()
	}
	return nil
}

func main() {
	harness.Main(func(address string) (harness.Peer, error) {
		return peer{address}, nil
	})
}
