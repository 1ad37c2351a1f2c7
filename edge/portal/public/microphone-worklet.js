// Runs on the audio thread: collects 100 ms of the microphone's samples at a time and passes them to the page.
class Microphone extends AudioWorkletProcessor {
  samples = new Float32Array(sampleRate / 10);
  filled = 0;

  process(inputs) {
    const channel = inputs[0]?.[0];
    if (channel === undefined) return true;
    for (const sample of channel) {
      this.samples[this.filled++] = sample;
      if (this.filled === this.samples.length) {
        this.port.postMessage(this.samples.slice());
        this.filled = 0;
      }
    }
    return true;
  }
}

registerProcessor('microphone', Microphone);
