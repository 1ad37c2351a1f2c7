/** The model that a session names, in either of its shapes (openai-contract.md section 5). */
export function modelOfSession(session: unknown): unknown {
  type Named = { model?: unknown } | null;
  const { audio, input_audio_transcription: beta } = (session ?? {}) as {
    audio?: { input?: { transcription?: Named } | null } | null;
    input_audio_transcription?: Named;
  };
  return (beta ?? audio?.input?.transcription)?.model;
}
