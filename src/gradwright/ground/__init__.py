"""What every room stands on: forked children with limits, copies of tensors that keep their layout, memory."""
