// Checks a recorded history of a DLedger group with porcupine: is there an order of its operations, each between its
// call and its return, that a single queue could have answered with?
//
// One JSON object a line. An append that never returned (return < 0) may have happened at any time after its call, or
// never. Exits with 0 when the history is linearizable, 1 when it is not, 2 when the time did not suffice.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type record struct {
	Client int    `json:"client"`
	Queue  int    `json:"queue"`
	Op     string `json:"op"`     // append or read
	Value  string `json:"value"`  // appended, or read as the last message; empty when the queue was
	Offset int64  `json:"offset"` // of the appended message, or the length of the queue that was read
	Call   int64  `json:"call"`
	Return int64  `json:"return"`
}

// A queue, as far as these operations show it.
type queue struct {
	length int64
	last   string
}

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		queues := map[int][]porcupine.Operation{}
		for _, operation := range history {
			number := operation.Input.(record).Queue
			queues[number] = append(queues[number], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range queues {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() interface{} { return queue{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		before, asked, known := state.(queue), input.(record), output.(bool)
		if asked.Op == "read" {
			return asked.Offset == before.length && asked.Value == before.last, before
		}
		after := queue{before.length + 1, asked.Value}
		return !known || asked.Offset == before.length, after
	},
	Equal: func(one, other interface{}) bool { return one == other },
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	var history []porcupine.Operation
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var one record
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		known := one.Return >= 0
		if !known {
			one.Return = math.MaxInt64
		}
		history = append(history, porcupine.Operation{
			ClientId: one.Client, Input: one, Call: one.Call, Output: known, Return: one.Return,
		})
	}
	began := time.Now()
	result := porcupine.CheckOperationsTimeout(model, history, 2*time.Minute)
	fmt.Printf("%s: %d operations in %.1f s\n", result, len(history), time.Since(began).Seconds())
	switch result {
	case porcupine.Ok:
		os.Exit(0)
	case porcupine.Illegal:
		os.Exit(1)
	}
	os.Exit(2)
}
